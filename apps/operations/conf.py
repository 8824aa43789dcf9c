"""The settings of the process and of the servers that it uses; other apps read them here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from apps.operations.domain.mail import MailServer

if TYPE_CHECKING:
    from celery import Celery


def db_driver() -> str:
    return str(settings.DB_DRIVER)


def celery_application() -> Celery:
    """Return the project's application, imported at the first use: no plain command pays for it."""
    application: Celery = import_string(settings.TASK_APPLICATION)
    return application


def broker_url() -> str:
    """Return the address of Celery's broker, `memory://…` where there is none."""
    return str(settings.CELERY_BROKER_URL)


def redis_url() -> str:
    """Return the address of Redis, empty without one."""
    return str(settings.REDIS_URL)


def encryption_keys() -> list[str]:
    """Return the keys of encryption at rest, current one first; none in the sync's processes."""
    return list(getattr(settings, "ENCRYPTION_KEYS", []))


def redis_prefix() -> str:
    return str(settings.REDIS_PREFIX)


def cache_ttl_s(topic: str) -> float:
    """Return for how long a cached read may be used; raise KeyError for an unknown topic."""
    return float(settings.CACHE_TTL_S[topic])


def mail_server() -> MailServer | None:
    """Return the server of EMAIL_URL, or None when it is not set."""
    if not settings.EMAIL_HOST or not settings.DEFAULT_FROM_EMAIL:
        return None
    return MailServer(
        host=settings.EMAIL_HOST,
        port=settings.EMAIL_PORT,
        username=settings.EMAIL_HOST_USER,
        password=settings.EMAIL_HOST_PASSWORD,
        use_tls=settings.EMAIL_USE_TLS,
        use_ssl=settings.EMAIL_USE_SSL,
        sender=settings.DEFAULT_FROM_EMAIL,
    )


def mail_timeout_s() -> float:
    return float(settings.EMAIL_TIMEOUT)


def metrics_address() -> tuple[str, int] | None:
    """METRICS_ADDR as host and port; `:9464` listens everywhere. None when unset."""
    text = str(settings.METRICS_ADDR)
    if not text:
        return None
    host, _colon, port = text.rpartition(":")
    if not port.isdecimal():
        raise ImproperlyConfigured(f"METRICS_ADDR={text!r}: expected host:port")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - a bare port listens everywhere


def encryption_key_origins() -> dict[str, str]:
    """Return each key with the variable that it comes from: the first one encrypts."""
    origins: dict[str, str] = settings.ENCRYPTION_KEY_ORIGINS
    return {key: origins.get(key, "") for key in settings.ENCRYPTION_KEYS if key}
