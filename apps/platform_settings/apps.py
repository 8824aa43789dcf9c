from __future__ import annotations

from django.apps import AppConfig


class PlatformSettingsConfig(AppConfig):
    name = "apps.platform_settings"
    label = "platform_settings"

    def ready(self) -> None:
        from apps.platform_settings.selectors import probe
        from apps.system.api import Probe, probes

        name = "platform-settings"
        probes.register(name)(Probe(name=name, required=True, check=probe))
