from __future__ import annotations

from django.apps import AppConfig


class StreamsConfig(AppConfig):
    name = "apps.streams"
    label = "streams"

    def ready(self) -> None:
        from apps.operations.api import lifespan_parts

        lifespan_parts.register_path("streams", "apps.streams.lifespan.StreamsPart")
