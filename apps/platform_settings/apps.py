from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig, apps

from apps.platform_settings.domain.backends import backend_states, runtime_labels


class PlatformSettingsConfig(AppConfig):
    """Registers the `backend_states` and `runtime_labels` of every app."""

    name = "apps.platform_settings"
    label = "platform_settings"
    mail_server = "apps.platform_settings.services.effective.mail_server"
    ci_trust = "apps.platform_settings.services.effective.ci_trust"
    probes: ClassVar = {"platform-settings": "apps.platform_settings.services.effective.PROBE"}
    encrypted_rows: ClassVar = {
        "settings": "apps.platform_settings.services.encrypted_settings.STORED",
        "settings-file": "apps.platform_settings.services.encrypted_settings.IN_FILE",
    }
    lifespan_parts: ClassVar = {"platform-settings": "apps.platform_settings.lifespan.SettingsPart"}

    def ready(self) -> None:
        backend_states.register_declared("backend_states", apps.get_app_configs())
        runtime_labels.register_declared("runtime_labels", apps.get_app_configs())
