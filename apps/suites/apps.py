from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class SuitesConfig(AppConfig):
    name = "apps.suites"
    label = "suites"
    lifespan_parts: ClassVar = {"suites": "apps.suites.lifespan.SuitesPart"}
    probes: ClassVar = {
        "launchable-suites": "apps.suites.lifespan.LAUNCHABLE_SUITES",
        "profiles": "apps.suites.lifespan.PROFILES",
    }
