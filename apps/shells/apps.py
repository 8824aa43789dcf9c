from __future__ import annotations

from django.apps import AppConfig


class ShellsConfig(AppConfig):
    name = "apps.shells"
    label = "shells"

    def ready(self) -> None:
        from apps.operations.api import further_verbs  # after all apps are loaded

        further_verbs.register_path("run shell", "apps.shells.management.shell.add_verbs")
