"""What streams read of the settings."""

from __future__ import annotations

from django.conf import settings


def redis_url() -> str:
    """Empty without Redis: nudges then stay in this process."""
    return settings.REDIS_URL


def nudge_channel() -> str:
    return f"{settings.REDIS_PREFIX}:nudges"


def streams_per_user() -> int:
    return settings.STREAM_MAX_PER_USER


def unit_of_work_patience_s() -> float:
    """How long a use case is repeated that loses races; then the store counts as busy."""
    return settings.UNIT_OF_WORK_PATIENCE_S
