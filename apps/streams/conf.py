"""The settings of streams."""

from __future__ import annotations

from django.conf import settings


def redis_url() -> str:
    """Return the URL of Redis; empty without one, and nudges stay in this process."""
    return settings.REDIS_URL


def nudge_channel() -> str:
    return f"{settings.REDIS_PREFIX}:nudges"


def streams_per_user() -> int:
    return settings.STREAM_MAX_PER_USER


def unit_of_work_patience_s() -> float:
    """Return for how long a use case with conflicts is repeated."""
    return settings.UNIT_OF_WORK_PATIENCE_S
