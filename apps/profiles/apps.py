from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class ProfilesConfig(AppConfig):
    name = "apps.profiles"
    label = "profiles"
    lifespan_parts: ClassVar = {"profiles": "apps.profiles.lifespan.ProfilesFilePart"}
