from __future__ import annotations

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "apps.agents"
    label = "agents"

    def ready(self) -> None:
        from apps.health.api import probes

        probes.register_path("agents", "apps.agents.probes.AGENTS")
