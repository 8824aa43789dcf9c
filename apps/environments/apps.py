from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class EnvironmentsConfig(AppConfig):
    name = "apps.environments"
    label = "environments"
    shared_streams: ClassVar = {
        "environments:events": "apps.environments.rest.streams.open_shared",
    }
