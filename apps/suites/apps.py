from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig, apps

from apps.suites.domain.suite_users import suite_users


class SuitesConfig(AppConfig):
    """Registers the `suite_users` of every app."""

    name = "apps.suites"
    label = "suites"
    lifespan_parts: ClassVar = {"suites": "apps.suites.lifespan.SuitesPart"}
    probes: ClassVar = {
        "launchable-suites": "apps.suites.lifespan.LAUNCHABLE_SUITES",
        "profiles": "apps.suites.lifespan.PROFILES",
    }

    def ready(self) -> None:
        suite_users.register_declared("suite_users", apps.get_app_configs())
