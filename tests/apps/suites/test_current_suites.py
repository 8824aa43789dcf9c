"""Suites as they are now, by a look at their own files: what serves mocks asks each second."""

from __future__ import annotations

import os
from typing import Any

import pytest

from apps.suites.evaluation.library import Library
from apps.suites.sources import index as module
from tests.apps.suites.conftest import Workspace

STAR = 'task.run("a", image = "x", command = ["true"])\n'


@pytest.fixture
def index(library: Library, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Any:
    library.patience_s = 0.03
    for suite_id in ("a", "b"):
        workspace.add(suite_id, STAR)
    for path in [*workspace.root.rglob("*"), workspace.root]:
        os.utime(path, (1_700_000_000, 1_700_000_000))  # new files may still change unseen
    library.index.suites()
    listed: list[int] = []
    suites = library.index.suites

    def counted() -> Any:
        listed.append(1)
        return suites()

    monkeypatch.setattr(library.index, "suites", counted)
    monkeypatch.setattr(library.index, "listed", listed, raising=False)
    return library.index


def test_what_has_not_changed_is_not_listed_again(index: Any) -> None:
    first = index.current(["a", "b"])

    assert sorted(first) == ["a", "b"]
    assert index.current(["a"])["a"] is first["a"]
    assert index.listed == []


def test_a_change_of_its_own_files_is_seen_at_once(index: Any, workspace: Workspace) -> None:
    before = index.current(["a"])["a"]
    workspace.add("b", STAR + "# changed\n")
    assert index.current(["a"])["a"] is before
    assert index.listed == []
    workspace.add("a", STAR + "# changed\n")

    assert index.current(["a"])["a"].digest != before.digest
    assert index.listed == [1]


def test_a_suite_that_comes_or_goes_is_seen(index: Any, workspace: Workspace) -> None:
    folder = workspace.add("new", STAR)
    assert sorted(index.current(["new"])) == ["new"]
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert index.current(["new"]) == {}


def test_an_unknown_name_lists_the_suites_once_a_second(
    index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECENT_S", 60.0)
    for _ in range(5):
        assert index.current(["none"]) == {}
    assert index.listed == []
    monkeypatch.setattr(module, "RECENT_S", 0.0)
    assert index.current(["none"]) == {}

    assert index.listed == [1]
