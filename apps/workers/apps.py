from __future__ import annotations

from django.apps import AppConfig

import worker
from kernel.registry import plugin_names


class WorkersConfig(AppConfig):
    name = "apps.workers"
    label = "workers"

    def ready(self) -> None:
        from apps.platform_settings.api import runtime_labels

        for name in plugin_names([f"{folder}/runtimes" for folder in worker.__path__]):
            runtime_labels.register_path(name, f"worker.runtimes.{name}.PLUGIN")
