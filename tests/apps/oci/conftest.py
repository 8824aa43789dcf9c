from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import scripted_registry
from tests.support.scripted_registry import ScriptedRegistry


@pytest.fixture
def configured(settings, tmp_path) -> Callable[..., None]:
    """Write registries into the platform settings."""

    def configure(*entries: dict[str, Any]) -> None:
        file: Path = tmp_path / "configuration.yaml"
        file.write_text(json.dumps({"registries": list(entries)}))
        settings.PLATFORM_SETTINGS_FILE = file

    return configure


@pytest.fixture
def registry(configured) -> Iterator[ScriptedRegistry]:
    """A scripted registry that the settings name R."""
    with scripted_registry.scripted() as found:
        configured(entry(found.url))
        yield found


def entry(url: str, registry_id: str = "R", **more: Any) -> dict[str, Any]:
    return {
        "registryId": registry_id,
        "name": registry_id,
        "provider": "Generic OCI",
        "registryUrl": url,
        "allowLocalNetwork": True,
        **more,
    }
