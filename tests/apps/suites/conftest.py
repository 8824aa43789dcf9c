"""A workspace of suites written as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from apps.suites import api, selectors
from apps.suites.authoring import checks, locks
from apps.suites.evaluation.library import Library
from apps.suites.services import registration, transfers
from tests.support.files import write_files


class Workspace:
    """A folder of suites; a suite is a mapping of paths to text or bytes, or its suite.star."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, suite_id: str, files: Mapping[str, str | bytes] | str) -> Path:
        named = {"suite.star": files} if isinstance(files, str) else files
        return write_files(self.root / suite_id, named)

    def definition(self, files: Mapping[str, str | bytes] | str) -> Mapping[str, Any]:
        """What the API shows of one suite of this content."""
        self.add("s", files)
        return api.get_definition("s")

    def error(self, files: Mapping[str, str | bytes] | str) -> dict[str, Any]:
        error: dict[str, Any] = self.definition(files)["topologyError"]
        return error

    def topology(self, files: Mapping[str, str | bytes] | str) -> list[dict[str, Any]]:
        """Of a suite that must resolve."""
        definition = self.definition(files)
        assert "topologyError" not in definition, definition["topologyError"]
        topology: list[dict[str, Any]] = definition["topology"]
        return topology


@pytest.fixture(autouse=True)
def _store(db) -> None:
    """Suites come from the store, too."""


def use_library(monkeypatch: pytest.MonkeyPatch, library: Library) -> None:
    """Let everything that reads suites read them from this library."""
    for module in (selectors, checks, locks, registration, transfers):
        monkeypatch.setattr(module, "library", library)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    fresh = Library()
    use_library(monkeypatch, fresh)
    yield fresh
    fresh.close()


@pytest.fixture
def workspace(tmp_path: Path, settings, library: Library) -> Workspace:
    settings.SUITES_DIR = tmp_path / "suites"
    settings.SUITES_DIR.mkdir()
    settings.MODULES_DIR = tmp_path / "modules"
    return Workspace(settings.SUITES_DIR)
