from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client

from apps.console import api_surfaces, run_list, selectors, suite_list
from apps.executions.api import RunFilter, difference_name, difference_sides
from apps.executions.selectors.artifacts import FailedCase
from apps.executions.selectors.overview import RunPage
from apps.shells.services.sessions import ShellOffer
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
    difference_name = staticmethod(difference_name)
    difference_sides = staticmethod(difference_sides)

    run: dict[str, Any] = field(default_factory=wire_samples.detail)
    suites: list[dict[str, Any]] = field(default_factory=wire_samples.launch_suites)
    cases: list[FailedCase] = field(default_factory=list)
    green: dict[str, Any] = field(default_factory=wire_samples.without_green)
    runs: list[dict[str, Any]] = field(
        default_factory=lambda: wire_samples.overview()["executions"]
    )

    def overview(self, _principal: object) -> dict[str, Any]:
        return wire_samples.overview()

    def run_page(self, _principal: object, _wanted: object, **_page: object) -> RunPage:
        items: list[Any] = self.runs
        return RunPage(items, "")

    def suite_runs(self, _principal: object, suite_id: str, *, limit: int) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = wire_samples.overview()["executions"]
        return [run for run in runs if run["suiteId"] == suite_id][:limit]

    def newest_by_suite(
        self,
        _principal: object,
        suite_ids: Sequence[str],
        *,
        count: int,
        statuses: frozenset[str] = frozenset(),
    ) -> dict[str, list[dict[str, Any]]]:
        wanted = [run for run in self.runs if not statuses or run["status"] in statuses]
        return {
            name: [run for run in wanted if run["suiteId"] == name][:count] for name in suite_ids
        }

    def launch_suites(self) -> list[dict[str, Any]]:
        return self.suites

    def detail(self, _principal: object, run_id: str, **_omit: object) -> dict[str, Any]:
        if run_id != self.run["id"]:
            raise RunNotFound("there is no run of that id")
        return self.run

    def since_green(self, _principal: object, _run_id: str) -> dict[str, Any]:
        return self.green

    def failed_cases(self, _principal: object, _run_id: str) -> list[FailedCase]:
        return self.cases


class FakeShells:
    """`shells.api` as far as the page of a run reads it: nothing can be entered."""

    def shell_offer(self, _principal: object, _run_id: str) -> ShellOffer:
        return ShellOffer(is_allowed=False)


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
    for reader in (selectors, run_list, suite_list):
        monkeypatch.setattr(reader, "executions", fake)
    monkeypatch.setattr(selectors, "shells", FakeShells())
    return fake


@pytest.fixture
def suites(monkeypatch: pytest.MonkeyPatch) -> FakeSuites:
    fake = FakeSuites()
    for reader in (api_surfaces, selectors, run_list, suite_list):
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
