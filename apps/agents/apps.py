from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "apps.agents"
    label = "agents"
    probes: ClassVar = {"agents": "apps.agents.selectors.AGENTS"}

    def ready(self) -> None:
        from apps.platform_settings.api import backend_states

        backend_states.register_path("agents", "apps.agents.selectors.backend_states")
