"""Runners look only while somebody wants to know (reference: control-plane 17)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any

import pytest

from apps.agents.api import Registration, register
from apps.environments import api, selectors
from apps.environments.models import DeadRun, StoredLook
from apps.environments.services import inventory_looks as looks
from apps.environments.services import snapshots
from apps.workers import inventory
from kernel import clock
from kernel.errors import InvalidInput
from tests.apps.environments.conftest import RunnerOfLoops, let_time_pass, principal_of
from tests.apps.executions_rest.conftest import Caller, make_run
from tests.support.processes import until
from tests.support.resources import EngineInMemory, resource
from worker import host

Start = Callable[..., RunnerOfLoops]


def test_nobody_looks_without_a_watcher(engine: EngineInMemory, start_runner: Start) -> None:
    start_runner(engine)

    time.sleep(0.5)

    assert engine.listed == 0


def test_a_snapshot_without_a_fresh_list_waits_for_a_look(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    engine.put(resource())
    start_runner(engine)

    found = api.snapshot(principal_of(admin))

    assert found["containerRuntimeAvailable"]
    assert [each["sandboxId"] for each in found["sandboxes"]] == ["run-000000000001"]


def test_a_runner_looks_again_while_it_is_watched_and_then_no_more(
    engine: EngineInMemory,
    start_runner: Start,
    admin: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looks, "LOOK_EVERY", looks.LOOK_EVERY / 50)
    start_runner(engine)
    api.snapshot(principal_of(admin))

    until(lambda: engine.listed >= 4, within_s=10)
    let_time_pass(600)
    time.sleep(0.3)
    before = engine.listed
    time.sleep(0.5)

    assert engine.listed == before


def test_without_a_runner_the_snapshot_says_so_at_once(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOOK_WITHIN_S", inf)  # who waits here waits for ever

    found = api.snapshot(principal_of(admin))

    assert not found["containerRuntimeAvailable"]
    assert (found["sandboxes"], len(found["warnings"])) == ([], 1)


def test_a_runner_that_does_not_look_is_waited_for_three_seconds_at_most(
    engine: EngineInMemory, start_runner: Start, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert snapshots.LOOK_WITHIN_S == 3
    monkeypatch.setattr(snapshots, "LOOK_WITHIN_S", 0.3)  # not each test of it takes so long
    start_runner(engine).stop()
    began = time.monotonic()

    found = api.snapshot(principal_of(admin))

    assert time.monotonic() - began >= 0.3
    assert not found["containerRuntimeAvailable"]


def test_an_engine_that_is_away_is_said_and_its_old_list_is_not_shown(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    engine.put(resource())
    start_runner(engine)
    api.snapshot(principal_of(admin))
    engine.away = True

    state = snapshots.look_again()

    assert (state.available, state.environments) == (False, ())


def test_one_engine_away_is_a_warning_beside_the_list_of_the_other(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    engine.put(resource())
    start_runner(engine)
    start_runner(EngineInMemory(away=True), "runner:b")

    found = api.snapshot(principal_of(admin))

    assert found["containerRuntimeAvailable"]
    assert len(found["sandboxes"]) == 1
    assert found["warnings"] == ["runner:b: its runtime did not answer the last look"]


def test_a_list_is_cut_at_5000_resources(admin: Caller) -> None:
    many = tuple(resource(name=f"c{number}", run_id="") for number in range(5_003))

    api.record_look(
        api.RuntimeLook(
            agent_id="runner:a",
            host_id="h",
            looked_at=clock.now(),
            available=True,
            resources=many,
        )
    )
    found = selectors.snapshot_of(
        selectors.read_inventory(), selectors.viewer_of(principal_of(admin))
    )

    assert found["summary"]["containers"] == 5_000
    assert found["warnings"] == ["runner:a: only 5000 of 5003 resources are shown"]


def test_a_run_becomes_a_zombie_by_two_looks_and_stops_being_one_when_it_is_kept(
    engine: EngineInMemory, start_runner: Start, ada: Caller
) -> None:
    long_ago = clock.now() - 10 * looks.WATCHED_FOR
    run = make_run(ada.workspace_id, status="Failed", finished_at=long_ago)
    engine.put(resource(run_id=run.run_id))
    start_runner(engine)
    me = principal_of(ada)

    first = api.snapshot(me)["sandboxes"][0]
    let_time_pass(31)
    snapshots.look_again()
    second = api.snapshot(me)["sandboxes"][0]
    run.keep_alive_until = clock.now() + looks.WATCHED_FOR
    run.save()
    snapshots.look_again()
    third = api.snapshot(me)["sandboxes"][0]

    assert (first["status"], first["orchestratorState"]) == ("Running", "dead")
    assert (second["status"], second["isZombie"]) == ("Zombie", True)
    assert second["zombieReason"].endswith("(Failed)")
    assert (third["status"], third["orchestratorState"]) == ("Running", "alive")
    assert not DeadRun.objects.exists()


def test_an_older_look_does_not_replace_a_newer_one() -> None:
    now = clock.now()
    newer = api.RuntimeLook(
        agent_id="a", host_id="h", looked_at=now, available=True, resources=(resource(),)
    )
    older = api.RuntimeLook(
        agent_id="a", host_id="h", looked_at=now - looks.LOOK_EVERY, available=False
    )

    api.record_look(newer)
    api.record_look(older)

    assert StoredLook.objects.get().available
    assert len(selectors.read_inventory().environments) == 1


def test_members_see_their_own_administrators_everything_and_orphans(
    engine: EngineInMemory, start_runner: Start, ada: Caller, bob: Caller, admin: Caller
) -> None:
    run = make_run(ada.workspace_id)
    engine.put(
        resource(name="a", run_id=run.run_id),
        resource(name="b", run_id="", label={"workspace_id": str(bob.workspace_id)}),
        resource(name="c", run_id=""),
    )
    start_runner(engine)

    def ids(caller: Caller) -> set[str]:
        found = api.snapshot(principal_of(caller))
        return {each["sandboxId"] for each in found["sandboxes"]}

    assert ids(ada) == {run.run_id}
    assert ids(bob) == {"orphan-container-b"}
    assert ids(admin) == {run.run_id, "orphan-container-b", "orphan-container-c"}
    assert api.environment_of_run(principal_of(bob), run.run_id) is None
    mine = api.environment_of_run(principal_of(ada), run.run_id)
    assert mine is not None
    assert mine["workspaceId"] == str(ada.workspace_id)


@pytest.mark.parametrize(
    ("status", "words"), [("Gone", ""), ("Running,x", ""), ("", "w" * 201), ("\x00", "")]
)
def test_unknown_filters_are_refused(admin: Caller, status: str, words: str) -> None:
    with pytest.raises(InvalidInput):
        api.snapshot(principal_of(admin), status=status, q=words)


def test_a_supervisor_of_this_host_without_its_process_is_gone_and_others_are_not_judged() -> None:
    """Invariant 15: a pid proves something only with the same host and start time."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    me: dict[str, Any] = {"pid": os.getpid(), "process_started_at": host.process_started_at()}
    known: dict[str, dict[str, Any]] = {
        "alive": me,
        "ended": {**me, "pid": ended.pid},
        "another-process-with-its-pid": {
            **me,
            "process_started_at": host.process_started_at() - timedelta(minutes=1),
        },
        "elsewhere": {**me, "pid": ended.pid, "host_id": "another host"},
        "worker": {"pid": None},
    }
    for name, facts in known.items():
        registered: dict[str, Any] = {
            "agent_id": name,
            "incarnation": name,
            "host_id": host.host_id(),
            **facts,
        }
        register(Registration(kind="runner", **registered))

    gone = inventory.find_gone_supervisors()

    assert gone == {"ended", "another-process-with-its-pid"}
