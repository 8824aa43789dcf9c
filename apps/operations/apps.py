from __future__ import annotations

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    """The label is part of the names of tables."""

    name = "apps.operations"
    label = "system"

    def ready(self) -> None:
        from apps.operations.domain.lifecycle import lifespan_parts

        for name, part in (
            ("audit", "AuditRows"),
            ("metrics", "MetricsListener"),
            ("telemetry", "Telemetry"),
        ):
            lifespan_parts.register_path(name, f"apps.operations.lifespan.{part}")
