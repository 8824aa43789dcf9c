"""The settings that this app reads."""

from __future__ import annotations

from django.conf import settings


def db_driver() -> str:
    return str(settings.DB_DRIVER)


def broker_url() -> str:
    """Celery's; `memory://…` where there is none."""
    return str(settings.CELERY_BROKER_URL)


def redis_url() -> str:
    return str(settings.REDIS_URL)
