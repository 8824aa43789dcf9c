from __future__ import annotations

from django.apps import AppConfig


class HealthConfig(AppConfig):
    name = "apps.health"
    label = "health"

    def ready(self) -> None:
        from apps.health.domain.probes import probes

        for name in ("datastore", "cache", "telemetry", "background", "broker"):
            probes.register_path(name, f"apps.health.services.probes.{name.upper()}")
