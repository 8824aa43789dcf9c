from __future__ import annotations

from django.apps import AppConfig


class PlatformSettingsConfig(AppConfig):
    name = "apps.platform_settings"
    label = "platform_settings"

    def ready(self) -> None:
        from apps.health.api import probes

        probes.register_path("platform-settings", "apps.platform_settings.selectors.PROBE")
