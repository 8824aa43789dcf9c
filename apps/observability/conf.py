"""The settings that this app reads."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from kernel.telemetry import TelemetrySettings, parse_pairs


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


def _optional_flag(name: str, text: str) -> bool | None:
    flags = {"": None, "true": True, "1": True, "false": False, "0": False}
    if text.lower() not in flags:
        raise ImproperlyConfigured(f"{name}={text!r}: expected 'true' or 'false'")
    return flags[text.lower()]
