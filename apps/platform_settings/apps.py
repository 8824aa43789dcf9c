from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class PlatformSettingsConfig(AppConfig):
    name = "apps.platform_settings"
    label = "platform_settings"
    mail_server = "apps.platform_settings.services.effective.mail_server"
    probes: ClassVar = {"platform-settings": "apps.platform_settings.services.effective.PROBE"}
    encrypted_rows: ClassVar = {
        "settings": "apps.platform_settings.services.encrypted_settings.STORED",
        "settings-file": "apps.platform_settings.services.encrypted_settings.IN_FILE",
    }
    lifespan_parts: ClassVar = {"platform-settings": "apps.platform_settings.lifespan.SettingsPart"}
