from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "apps.agents"
    label = "agents"
    backend_states: ClassVar = {"agents": "apps.agents.selectors.backend_states"}
    probes: ClassVar = {"agents": "apps.agents.selectors.AGENTS"}
