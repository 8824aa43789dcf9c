"""Places of runs and steps in the store: limits, shares, groups, and what is told of them.

(reference: control-plane 14.4)
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apps.executions import api
from apps.executions.models import Execution, FairQueue, Step
from apps.executions.services.launch import store_run
from apps.platform_settings.api import backends
from kernel import clock
from tests.apps.executions.runs import Run, Worker, accepted, node, queued_run, somebody
from tests.support.threads import at_once


@pytest.fixture(autouse=True)
def _place(settings: Any, tmp_path: Path) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"


def limit(path: Path, *, backend: str = "", workspaces: str = "[]") -> None:
    path.write_text(
        "agents: [{agentId: local-docker, name: Local, type: local, default: true"
        f"{backend}}}]\nworkspaces: {workspaces}\n"
    )
    assert backends()


def grouped_run(principal: Any, group: str = "main", *, cancels: bool = False) -> Run:
    ready = accepted(node("a"), principal=principal)
    concurrency = api.Concurrency(group=group, cancel_in_progress=cancels)
    request = api.LaunchRequest(suite_id="demo", concurrency=concurrency)
    return Run(store_run(replace(ready, request=request))[0], principal)


def end_run(run: Run, *, after_s: float) -> None:
    """As if the run had been active for so long, and ended now."""
    ended = clock.now()
    Execution.objects.filter(pk=run.pk).update(
        status="Healthy", booted_at=ended - timedelta(seconds=after_s), finished_at=ended
    )


def running_steps() -> int:
    return Step.objects.filter(job_state="running").count()


def test_a_backend_and_a_workspace_have_so_many_runs_at_once(settings: Any) -> None:
    busy, other = somebody(), somebody()
    limit(
        settings.PLATFORM_SETTINGS_FILE,
        backend=", maxConcurrentRuns: 3",
        workspaces=f"[{{workspaceId: {busy.workspace_id}, maxConcurrentRuns: 2}}]",
    )
    of_busy = [queued_run(node("a"), principal=busy) for _ in range(4)]
    of_other = [queued_run(node("a"), principal=other) for _ in range(2)]

    api.dispatch()

    assert [run.status for run in of_busy] == ["Booting", "Booting", "Queued", "Queued"]
    assert [run.status for run in of_other] == ["Booting", "Queued"]


def test_a_queued_run_says_what_it_waits_for_and_when_it_is_expected(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentRuns: 1")
    mine, foreign = somebody(), somebody()
    end_run(queued_run(node("a"), principal=foreign), after_s=30)
    queued_run(node("a"), principal=foreign)
    run = queued_run(node("a"), principal=mine)
    api.dispatch()

    told = api.detail(mine, run.id)

    waits = "1 of 1 places of backend Local is used by another workspace"
    assert told["sentence"] == f"Waiting for its turn: number 1 in the queue; {waits}"
    assert told["verdict"]["sentence"] == told["sentence"]
    assert (told["queue"]["position"], told["queue"]["length"]) == (1, 1)
    assert told["queue"]["waitsFor"] == waits
    expected = told["queue"]["expectedStart"]
    assert expected["earliest"] < expected["latest"]
    assert expected["text"].startswith("in ")
    assert run.row.expected_wait_ms is not None
    command = api.run_detail(run.id)
    assert command["queue"]["waitsFor"] == waits  # a workspace without a name
    assert "queue" not in api.detail(foreign, Execution.objects.get(status="Booting").run_id)


def test_steps_at_once_stay_within_the_limit_of_the_backend(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 2")
    worker = Worker()
    queued_run(node("db", kind="service"), *[node(f"t{each}") for each in range(4)])
    api.dispatch()

    assert sorted(worker.claim()) == ["db", "t0", "t1"]  # services take no place
    assert worker.claim() == []
    worker.end("t0")
    assert worker.claim() == ["t2"]


def test_a_limit_that_is_lowered_while_steps_run_gives_no_more_places(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 3")
    worker = Worker()
    queued_run(*[node(f"t{each}") for each in range(6)])
    api.dispatch()
    worker.claim()
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 1")

    for ended in ("t0", "t1"):
        worker.end(ended)
        assert worker.claim() == []
    worker.end("t2")
    assert worker.claim() == ["t3"]


def test_a_flood_of_steps_does_not_keep_another_workspace_waiting(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 2")
    worker = Worker()
    flood = somebody()
    for nth in range(3):
        queued_run(*[node(f"f{nth}{each}") for each in range(8)], principal=flood)
    api.dispatch()
    worker.claim()
    queued_run(node("quiet"), principal=somebody())
    api.dispatch()

    worker.end("f00")

    assert worker.claim() == ["quiet"]


def test_without_limits_several_workspaces_share_a_busy_supervisor(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE)
    worker = Worker()
    flood, quiet = somebody(), somebody()
    queued_run(*[node(f"f{each}") for each in range(8)], principal=flood)
    queued_run(*[node(f"q{each}") for each in range(2)], principal=quiet)
    api.dispatch()

    assert sorted(each[0] for each in worker.claim(4)) == ["f", "f", "q", "q"]


def test_one_workspace_without_limits_locks_no_queue(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE)
    worker = Worker()
    queued_run(node("a"))
    api.dispatch()

    assert worker.claim() == ["a"]
    assert not FairQueue.objects.exclude(name="runs").exists()


def test_a_workspace_has_so_many_steps_at_once(settings: Any) -> None:
    few = somebody()
    limit(
        settings.PLATFORM_SETTINGS_FILE,
        workspaces=f"[{{workspaceId: {few.workspace_id}, maxConcurrentSteps: 1}}]",
    )
    worker = Worker()
    queued_run(node("a"), node("b"), principal=few)
    queued_run(node("c"), node("d"), principal=somebody())
    api.dispatch()

    assert sorted(worker.claim()) == ["a", "c", "d"]


@pytest.mark.store
def test_supervisors_that_claim_at_once_never_pass_a_limit(settings: Any) -> None:
    """Two control planes on one store: threads with connections of their own."""
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 5")
    workers = [Worker(agent_id=f"runner-{nth}") for nth in range(4)]
    for _ in range(8):
        queued_run(*[node(f"t{each}") for each in range(4)], principal=somebody())
    api.dispatch()

    at_once([partial(worker.claim, 4) for worker in workers])
    assert running_steps() == 5

    for worker in workers:
        for step in list(worker.jobs)[:1]:
            worker.end(step)
    at_once([partial(worker.claim, 4) for worker in workers])
    assert running_steps() == 5


def test_the_newest_of_a_group_takes_the_place_of_those_that_wait() -> None:
    ada = somebody()
    first, second = grouped_run(ada), grouped_run(ada, "other")
    api.dispatch()
    third, fourth = grouped_run(ada), grouped_run(ada)
    foreign = grouped_run(somebody())
    api.dispatch()

    runs = (first, second, third, fourth, foreign)
    assert [run.status for run in runs] == ["Booting", "Booting", "Canceled", "Queued", "Booting"]
    assert f"superseded by {fourth.id} of the concurrency group main" in third.row.sentence
    waits = api.detail(ada, fourth.id)["queue"]["waitsFor"]
    assert waits == f"{first.id} of its concurrency group has not ended"


def test_cancel_in_progress_cancels_the_active_run_too() -> None:
    ada = somebody()
    first = grouped_run(ada)
    api.dispatch()

    second = grouped_run(ada, cancels=True)
    api.dispatch()

    assert (first.status, second.status) == ("Canceled", "Booting")
    assert api.detail(ada, second.id)["concurrency"] == {"group": "main", "cancelInProgress": True}


@pytest.mark.store
def test_launches_of_a_group_at_once_leave_one_active_and_one_waiting() -> None:
    ada = somebody()
    at_once([partial(grouped_run, ada)] * 4)
    api.dispatch()

    statuses = sorted(Execution.objects.values_list("status", flat=True))
    assert statuses.count("Booting") == 1
    assert statuses.count("Canceled") == 3


def test_a_run_that_is_canceled_in_the_queue_leaves_its_turn(settings: Any) -> None:
    settings.EXECUTION_MAX_ACTIVE = 1
    ada = somebody()
    queued_run(node("a"), principal=ada)
    second, third = (queued_run(node("a"), principal=ada) for _ in range(2))
    api.dispatch()

    api.cancel(ada, second.id)

    assert api.summary(third.row)["queuePosition"] == 1
