from __future__ import annotations

from django.apps import AppConfig


class ProfilesConfig(AppConfig):
    name = "apps.profiles"
    label = "profiles"

    def ready(self) -> None:
        from apps.health.api import probes

        probes.register_path("profiles", "apps.profiles.selectors.PROBE")
