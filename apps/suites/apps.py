from __future__ import annotations

from django.apps import AppConfig


class SuitesConfig(AppConfig):
    name = "apps.suites"
    label = "suites"

    def ready(self) -> None:
        from apps.health.api import probes
        from apps.operations.api import lifespan_parts

        probes.register_path("launchable-suites", "apps.suites.lifespan.LAUNCHABLE_SUITES")
        lifespan_parts.register_path("suites", "apps.suites.lifespan.SuitesPart")
