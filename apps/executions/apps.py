from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class ExecutionsConfig(AppConfig):
    name = "apps.executions"
    label = "executions"
    lifespan_parts: ClassVar = {"sweeper": "apps.executions.services.sweep.SweeperPart"}
