from __future__ import annotations

from django.apps import AppConfig


class ExecutionsConfig(AppConfig):
    name = "apps.executions"
    label = "executions"

    def ready(self) -> None:
        from apps.operations.api import lifespan_parts

        lifespan_parts.register_path("sweeper", "apps.executions.services.sweep.SweeperPart")
