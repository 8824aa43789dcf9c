from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig, apps

from apps.operations.domain.encrypted_rows import encrypted_rows
from apps.operations.domain.lifecycle import lifespan_parts


class OperationsConfig(AppConfig):
    """Registers `lifespan_parts` and `encrypted_rows` of every app. The label names tables."""

    name = "apps.operations"
    label = "system"
    lifespan_parts: ClassVar = {
        "audit": "apps.operations.lifespan.AuditRows",
        "presence": "apps.operations.lifespan.PresencePart",
        "metrics": "apps.operations.lifespan.MetricsListener",
        "telemetry": "apps.operations.lifespan.Telemetry",
    }

    def ready(self) -> None:
        lifespan_parts.register_declared("lifespan_parts", apps.get_app_configs())
        encrypted_rows.register_declared("encrypted_rows", apps.get_app_configs())
