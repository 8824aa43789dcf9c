from __future__ import annotations

from django.apps import AppConfig


class SuitesConfig(AppConfig):
    name = "apps.suites"
    label = "suites"

    def ready(self) -> None:
        from apps.system.api import lifespan_parts, probes

        probes.register_path("launchable-suites", "apps.suites.lifespan.LAUNCHABLE_SUITES")
        lifespan_parts.register_path("suites", "apps.suites.lifespan.SuitesPart")
