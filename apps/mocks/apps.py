from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig, apps

from apps.mocks.run_readers import run_readers
from mocks.spaces import space_sources


class MocksConfig(AppConfig):
    """Registers the `mock_spaces` of every app by kind, and the `run_readers`."""

    name = "apps.mocks"
    label = "mocks"
    lifespan_parts: ClassVar = {
        "mocks": "apps.mocks.lifespan.MocksPart",
        "mocks-grpc": "apps.mocks.lifespan.GrpcPart",
    }

    mock_spaces: ClassVar = {"suite": "apps.mocks.selectors.shared_spaces"}

    def ready(self) -> None:
        space_sources.register_declared("mock_spaces", apps.get_app_configs())
        run_readers.register_declared("run_readers", apps.get_app_configs())
