"""The settings that this app reads."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from kernel.telemetry import TelemetrySettings, parse_pairs

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def db_driver() -> str:
    return str(settings.DB_DRIVER)


def broker_url() -> str:
    """Celery's; `memory://…` where there is none."""
    return str(settings.CELERY_BROKER_URL)


def celery_application() -> str:
    """Return the import path of the project's Celery application."""
    return str(settings.TASK_APPLICATION)


def redis_url() -> str:
    return str(settings.REDIS_URL)


def redis_prefix() -> str:
    return str(settings.REDIS_PREFIX)


def public_url() -> str:
    return str(settings.PUBLIC_API_URL)


def frontend_origins() -> tuple[str, ...]:
    return tuple(url.rstrip("/") for url in settings.FRONTEND_URLS)


def is_secure_site() -> bool:
    return bool(settings.SECURE_SITE)


def keeps_audit_rows() -> bool:
    return bool(settings.AUDIT_ROWS)


def metrics_address() -> tuple[str, int] | None:
    """METRICS_ADDR as host and port; `:9464` listens everywhere. None when unset."""
    text = str(settings.METRICS_ADDR)
    if not text:
        return None
    host, _colon, port = text.rpartition(":")
    if not port.isdecimal():
        raise ImproperlyConfigured(f"METRICS_ADDR={text!r}: expected host:port")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - a bare port listens everywhere


def telemetry_settings() -> TelemetrySettings | None:
    """None when no endpoint is set: telemetry is off."""
    if not settings.OTEL_ENDPOINT:
        return None
    return TelemetrySettings(
        endpoint=settings.OTEL_ENDPOINT,
        protocol=settings.OTEL_PROTOCOL,
        service_name=settings.OTEL_SERVICE_NAME,
        insecure=_optional_flag("OTEL_EXPORTER_OTLP_INSECURE", settings.OTEL_INSECURE),
        headers=parse_pairs(settings.OTEL_HEADERS),
        resource=parse_pairs(settings.OTEL_RESOURCE_ATTRIBUTES),
    )


def trusted_proxies() -> tuple[Network, ...]:
    """TRUSTED_PROXIES: addresses and CIDR networks."""
    return _networks(tuple(settings.TRUSTED_PROXIES))


def _optional_flag(name: str, text: str) -> bool | None:
    flags = {"": None, "true": True, "1": True, "false": False, "0": False}
    if text.lower() not in flags:
        raise ImproperlyConfigured(f"{name}={text!r}: expected 'true' or 'false'")
    return flags[text.lower()]


@lru_cache(maxsize=8)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise ImproperlyConfigured(f"TRUSTED_PROXIES: {error}") from None
