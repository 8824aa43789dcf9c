"""A runner has no port: its heartbeat says which of its background loops fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.agents.api import list_agents
from apps.agents.selectors import agents_ready
from apps.workers.control_plane.in_process import InProcessControlPlane
from apps.workers.runner import Runner
from kernel import background
from tests.apps.workers.conftest import Stage
from tests.support.broken import Unforeseen
from tests.support.processes import until
from worker import host
from worker.domain.control_plane import FAILING_LOOPS, LOOP_CHARACTERS
from worker.supervisor.supervisor import Supervisor

NAME = f"runner:{host.host_name()}"


@pytest.fixture
def runner(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At work, with ten heartbeats a second."""
    register = InProcessControlPlane.register

    async def often(plane: InProcessControlPlane, *arguments: Any, **options: Any) -> Any:
        return replace(await register(plane, *arguments, **options), heartbeat_s=0.1)

    monkeypatch.setattr(InProcessControlPlane, "register", often)
    settings.DATA_DIR = tmp_path / "data"
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    made = Runner("process")
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield
    finally:
        made.stop()
        thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def claims_fail(monkeypatch: pytest.MonkeyPatch, quick_loops: None) -> threading.Event:
    """While it is set, the claims of every supervisor end by an error."""
    failing, claim = threading.Event(), Supervisor._claim_forever

    async def claim_or_fail(supervisor: Supervisor) -> None:
        if failing.is_set():
            raise Unforeseen("as the test says")
        await claim(supervisor)

    monkeypatch.setattr(background, "LONGEST_PAUSE_S", 0.2)
    monkeypatch.setattr(Supervisor, "_claim_forever", claim_or_fail)
    failing.set()
    return failing


@pytest.mark.django_db(transaction=True)
def test_a_failing_loop_of_a_runner_is_told_and_cleared_by_its_heartbeats(
    claims_fail: threading.Event, runner: None
) -> None:
    _wait(lambda: _failing_loops() == ("claims",), "a heartbeat names the loop")
    failing = agents_ready()

    claims_fail.clear()
    _wait(lambda: _failing_loops() == (), "a heartbeat clears it")

    assert (failing.ready, failing.detail) == (False, f"{NAME}: loop claims is failing")
    assert agents_ready().ready


def _failing_loops() -> tuple[str, ...] | None:
    """None before it registers."""
    return next((agent.failing_loops for agent in list_agents()), None)


def _wait(holds: Callable[[], bool], what: str) -> None:
    until(holds, within_s=30, what=what)


async def test_a_heartbeat_names_a_bounded_number_of_loops(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number:02}".ljust(LOOP_CHARACTERS + 1, "x") for number in range(FAILING_LOOPS + 1)]
    monkeypatch.setattr(background, "failing", lambda: names)

    async with stage.supervisor():
        await stage.store.until(lambda: bool(stage.store.beats))

    told = stage.store.beats[0].failing_loops
    assert len(told) == FAILING_LOOPS
    assert {len(name) for name in told} == {LOOP_CHARACTERS}
