from __future__ import annotations

from django.apps import AppConfig

import worker
from kernel.registry import plugin_names


class WorkersConfig(AppConfig):
    name = "apps.workers"
    label = "workers"

    @property
    def runtime_labels(self) -> dict[str, str]:
        """Return the paths of the runtimes that are installed, by name."""
        names = plugin_names([f"{folder}/runtimes" for folder in worker.__path__])
        return {name: f"worker.runtimes.{name}.PLUGIN" for name in names}
