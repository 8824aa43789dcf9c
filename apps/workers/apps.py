from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    name = "apps.workers"
    label = "workers"

    def ready(self) -> None:
        for runtime in ("docker", "process"):  # each registers itself
            import_module(f"worker.runtimes.{runtime}")
