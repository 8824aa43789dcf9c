from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class StreamsConfig(AppConfig):
    name = "apps.streams"
    label = "streams"
    lifespan_parts: ClassVar = {"streams": "apps.streams.services.responses.StreamsPart"}
