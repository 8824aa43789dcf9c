from __future__ import annotations

from django.apps import AppConfig


class SuitesConfig(AppConfig):
    name = "apps.suites"
    label = "suites"

    def ready(self) -> None:
        from apps.suites.lifespan import SuiteEvaluation
        from apps.suites.probes import launchable_suites
        from apps.system.api import Probe, lifespan_parts, probes

        probes.register("launchable-suites")(
            Probe(name="launchable-suites", required=True, check=launchable_suites)
        )
        lifespan_parts.register("suites")(SuiteEvaluation())
