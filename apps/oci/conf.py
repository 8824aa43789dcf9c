"""The settings of registries."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.conf import settings


def ca_file() -> Path | None:
    """Return the file of further certificate authorities of registries (PEM), or None."""
    return Path(settings.REGISTRY_CA_FILE) if settings.REGISTRY_CA_FILE else None


def sync_interval() -> timedelta:
    """Return after which time a registry is due again; zero: never by itself."""
    return timedelta(seconds=settings.REGISTRY_SYNC_INTERVAL_S)
