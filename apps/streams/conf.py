"""The settings of streams."""

from __future__ import annotations

from django.conf import settings


def streams_per_user() -> int:
    return settings.STREAM_MAX_PER_USER


def unit_of_work_patience_s() -> float:
    """Return for how long a use case with conflicts is repeated."""
    return settings.UNIT_OF_WORK_PATIENCE_S
