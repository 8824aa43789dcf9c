"""Suites in the registry that `make test` starts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import servers
from tests.support.parts import need

REGISTRY_ID = "tests"


class TestRegistry:
    """The registry of the tests, and a folder of repositories of its own for each test."""

    __test__ = False  # no class of tests

    def __init__(self) -> None:
        self.host = need("TEST_REGISTRY", "a registry with a password")
        self.folder = f"suites-{uuid.uuid4().hex[:10]}"

    def repository(self, name: str) -> str:
        return f"{self.host}/{self.folder}/{name}"

    def settings_text(self, *, url: str = "") -> str:
        """The platform settings with this registry alone, limited to the folder."""
        return (
            "registries:\n"
            f"  - registryId: {REGISTRY_ID}\n    name: Tests\n    provider: Distribution\n"
            f"    registryUrl: {url or f'http://{self.host}'}\n"
            f"    username: {servers.REGISTRY_USER}\n    secret: {servers.REGISTRY_PASSWORD}\n"
            f"    repositoryScope: {self.folder}\n    allowLocalNetwork: true\n"
        )

    def configure(self, settings: Any, folder: Path) -> None:
        settings.PLATFORM_SETTINGS_FILE = folder / "configuration.yaml"
        settings.PLATFORM_SETTINGS_FILE.write_text(self.settings_text())


def package(star: str, **more: str) -> Mapping[str, bytes]:
    """The files of a suite; `metadata_yaml` is the file metadata.yaml."""
    named = {key.replace("__", "/").replace("_yaml", ".yaml"): text for key, text in more.items()}
    return {"suite.star": star.encode(), **{key: text.encode() for key, text in named.items()}}
