"""The settings of environments."""

from __future__ import annotations

from django.conf import settings


def reaps_zombies() -> bool:
    """Return whether runners remove old zombies without being asked."""
    return bool(settings.ENVIRONMENT_AUTO_REAP)
