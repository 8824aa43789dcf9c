from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig, apps

from apps.health.domain.probes import probes


class HealthConfig(AppConfig):
    """Registers the `probes` of every app."""

    name = "apps.health"
    label = "health"
    probes: ClassVar = {
        name: f"apps.health.services.{name.upper()}"
        for name in ("datastore", "cache", "telemetry", "background", "broker")
    }

    def ready(self) -> None:
        probes.register_declared("probes", apps.get_app_configs())
