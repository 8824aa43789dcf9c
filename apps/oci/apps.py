from __future__ import annotations

from django.apps import AppConfig


class OciConfig(AppConfig):
    name = "apps.oci"
    label = "oci"
