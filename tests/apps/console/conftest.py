from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client

from apps.console import run_list, selectors
from apps.executions.api import FailedCase, RunFilter, RunPage
from apps.executions.domain.events import LineRecord
from kernel.errors import NotFound
from tests.apps.console import wire_samples


class RunNotFound(NotFound):
    code = "execution_not_found"


class SuiteNotFound(NotFound):
    code = "suite_not_found"


@dataclass
class FakeExecutions:
    """`executions.api` as far as the pages read it, over wire samples."""

    RunFilter = RunFilter

    run: dict[str, Any] = field(default_factory=wire_samples.detail)
    suites: list[dict[str, Any]] = field(default_factory=wire_samples.launch_suites)
    cases: list[FailedCase] = field(default_factory=list)
    lines: dict[str, list[tuple[int, LineRecord]]] = field(default_factory=dict)

    def overview(self, _principal: object) -> dict[str, Any]:
        return wire_samples.overview()

    def run_page(self, _principal: object, _wanted: object, **_page: object) -> RunPage:
        items: list[Any] = wire_samples.overview()["executions"]
        return RunPage(items, "")

    def suite_runs(self, _principal: object, suite_id: str, *, limit: int) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = wire_samples.overview()["executions"]
        return [run for run in runs if run["suiteId"] == suite_id][:limit]

    def launch_suites(self) -> list[dict[str, Any]]:
        return self.suites

    def detail(self, _principal: object, run_id: str, **_omit: object) -> dict[str, Any]:
        if run_id != self.run["id"]:
            raise RunNotFound("there is no run of that id")
        return self.run

    def failed_cases(self, _principal: object, _run_id: str) -> list[FailedCase]:
        return self.cases

    def last_lines(self, _run_id: str, source: str, *, count: int) -> list[tuple[int, LineRecord]]:
        return self.lines.get(source, [])[-count:]


@dataclass
class FakeSuites:
    """`suites.api` as far as the pages read it."""

    definitions: list[dict[str, Any]] = field(default_factory=lambda: [wire_samples.definition()])

    DEPENDENCY_FILES = ("dependencies.yaml", "dependencies.yml")
    lock: Any = None  # what `lock_difference` returns or raises

    def lock_difference(self, suite_id: str) -> Any:
        self.get_definition(suite_id)
        if isinstance(self.lock, Exception):
            raise self.lock
        return self.lock

    def list_suites(self) -> list[dict[str, Any]]:
        return self.definitions

    def get_definition(self, suite_id: str) -> dict[str, Any]:
        for definition in self.definitions:
            if definition["id"] == suite_id:
                return definition
        raise SuiteNotFound("there is no suite of that id")


@pytest.fixture
def executions(monkeypatch: pytest.MonkeyPatch) -> FakeExecutions:
    fake = FakeExecutions()
    for reader in (selectors, run_list):
        monkeypatch.setattr(reader, "executions", fake)
    return fake


@pytest.fixture
def suites(monkeypatch: pytest.MonkeyPatch) -> FakeSuites:
    fake = FakeSuites()
    for reader in (selectors, run_list):
        monkeypatch.setattr(reader, "suites", fake)
    return fake


@pytest.fixture
def reader(db: None, executions: FakeExecutions, suites: FakeSuites) -> Client:
    """A browser whose reader is signed in."""
    client = Client()
    client.post(
        "/sign-up",
        {"fullName": "Ada Lovelace", "email": "ada@example.org", "password": "Str0ngEnough"},
    )
    return client
