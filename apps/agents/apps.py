from __future__ import annotations

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "apps.agents"
    label = "agents"

    def ready(self) -> None:
        from apps.agents.probes import agents
        from apps.system.api import Probe, probes

        probes.register("agents")(Probe(name="agents", required=False, check=agents))
