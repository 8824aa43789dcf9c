from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig

from mocks.spaces import space_sources


class MocksConfig(AppConfig):
    name = "apps.mocks"
    label = "mocks"
    lifespan_parts: ClassVar = {
        "mocks": "apps.mocks.lifespan.MocksPart",
        "mocks-grpc": "apps.mocks.lifespan.GrpcPart",
    }

    def ready(self) -> None:
        space_sources.register_path("suite", "apps.mocks.selectors.shared_spaces")
