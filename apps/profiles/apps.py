from __future__ import annotations

from django.apps import AppConfig


class ProfilesConfig(AppConfig):
    name = "apps.profiles"
    label = "profiles"

    def ready(self) -> None:
        from apps.profiles.selectors import probe
        from apps.system.api import Probe, probes

        probes.register("profiles")(Probe(name="profiles", required=True, check=probe))
