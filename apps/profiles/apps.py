from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class ProfilesConfig(AppConfig):
    name = "apps.profiles"
    label = "profiles"
    probes: ClassVar = {"profiles": "apps.profiles.selectors.PROBE"}
