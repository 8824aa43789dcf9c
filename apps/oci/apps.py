from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class OciConfig(AppConfig):
    name = "apps.oci"
    label = "oci"
    lifespan_parts: ClassVar = {"registries": "apps.oci.lifespan.RegistriesPart"}
