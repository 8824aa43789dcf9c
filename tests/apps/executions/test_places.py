"""Places of runs and steps in the store: limits, shares, groups, and what is told of them.

(reference: control-plane 14.4)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from apps.executions import api
from apps.executions.domain import queue_forecast
from apps.executions.domain.runs import Concurrency
from apps.executions.models import Execution, FairQueue, Step, WorkLease
from apps.executions.selectors.run_queue import QueueOfRuns, recent_starts
from apps.executions.selectors.runs import summary
from apps.executions.services import claims, run_aggregate, start_forecasts
from apps.executions.services.admission import dispatch
from apps.executions.services.cancellations import cancel
from apps.executions.services.launch import store_run
from apps.executions.services.start_forecasts import forecast_pace, forecast_starts
from apps.platform_settings.api import backends
from kernel import clock
from tests.apps.executions.runs import Run, Worker, accepted, booted_run, node, queued_run
from tests.support.people import somebody
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


def two_backends(path: Path, *, gpu: str, cpu: str = "") -> None:
    path.write_text(
        f"agents: [{{agentId: gpu, name: GPU, type: local, default: true{gpu}}}, "
        f"{{agentId: cpu, name: CPU, type: local{cpu}}}]\n"
    )


def run_on(backend_id: str, *nodes: dict[str, Any], principal: Any) -> Run:
    (backend,) = [each for each in backends() if each.backend_id == backend_id]
    run = Run(
        store_run(replace(accepted(*nodes, principal=principal), backend=backend))[0], principal
    )
    dispatch()  # each by itself, so that the steps of one are older than those of the next
    return run


def grouped_run(principal: Any, group: str = "main", *, cancels: bool = False) -> Run:
    ready = accepted(node("a"), principal=principal)
    concurrency = Concurrency(group=group, cancel_in_progress=cancels)
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

    dispatch()

    assert [run.status for run in of_busy] == ["Booting", "Booting", "Queued", "Queued"]
    assert [run.status for run in of_other] == ["Booting", "Queued"]


def test_a_queued_run_says_what_it_waits_for_and_when_it_is_expected(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentRuns: 1")
    mine, foreign = somebody(), somebody()
    end_run(queued_run(node("a"), principal=foreign), after_s=30)
    queued_run(node("a"), principal=foreign)
    run = queued_run(node("a"), principal=mine)
    dispatch()
    forecast_starts()

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
    dispatch()

    assert sorted(worker.claim()) == ["db", "t0", "t1"]  # services take no place
    assert worker.claim() == []
    worker.end("t0")
    assert worker.claim() == ["t2"]


def test_a_limit_that_is_lowered_while_steps_run_gives_no_more_places(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 3")
    worker = Worker()
    queued_run(*[node(f"t{each}") for each in range(6)])
    dispatch()
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
    dispatch()
    worker.claim()
    queued_run(node("quiet"), principal=somebody())
    dispatch()

    worker.end("f00")

    assert worker.claim() == ["quiet"]


def test_without_limits_several_workspaces_share_a_busy_supervisor(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE)
    worker = Worker()
    flood, quiet = somebody(), somebody()
    queued_run(*[node(f"f{each}") for each in range(8)], principal=flood)
    queued_run(*[node(f"q{each}") for each in range(2)], principal=quiet)
    dispatch()

    assert sorted(each[0] for each in worker.claim(4)) == ["f", "f", "q", "q"]


def test_one_workspace_without_limits_locks_no_queue(settings: Any) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE)
    worker = Worker()
    queued_run(node("a"))
    dispatch()

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
    dispatch()

    assert sorted(worker.claim()) == ["a", "c", "d"]


def test_a_claim_raises_the_versions_of_the_runs_that_it_chose_alone(settings: Any) -> None:
    """Reports of all others would wait for it, or conflict with it on MongoDB."""
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 3")
    worker = Worker()
    for _ in range(5):
        ada = somebody()
        for _ in range(2):
            queued_run(node("db", kind="service"), node("t"), principal=ada)
    dispatch()
    worker.claim(10)
    versions = dict(Execution.objects.values_list("pk", "version"))
    Step.objects.filter(job_state="running", kind="task").update(job_state="finished")

    assert worker.claim(1) == ["t"]

    raised = [
        pk for pk, version in Execution.objects.values_list("pk", "version")
        if version != versions[pk]
    ]  # fmt: skip
    assert raised == list(Step.objects.filter(job_state="running", kind="task").values_list(
        "execution_id", flat=True
    ))  # fmt: skip


def test_a_step_that_is_not_claimable_any_longer_makes_room_for_the_next(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a claim knows of a waiting step may be older than its run."""
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 2")
    worker = Worker()
    ada = somebody()
    first, second = (queued_run(node("a"), node("b"), principal=ada) for _ in range(2))
    third = queued_run(node("c"), principal=ada)
    dispatch()
    load = run_aggregate.load_runs

    def load_later(pks: set[UUID]) -> Any:
        for run in (first, second):
            if run.pk in pks and run.row.status == "Booting":
                cancel(ada, run.id)
        return load(pks)

    monkeypatch.setattr(claims, "load_runs", load_later)

    assert worker.claim(2) == ["c"]
    assert third.statuses == {"c": "running"}


@pytest.mark.parametrize("ahead", [8, 1], ids=["more than are looked at", "few"])
def test_a_backend_without_places_hides_no_step_of_another(settings: Any, ahead: int) -> None:
    two_backends(settings.PLATFORM_SETTINGS_FILE, gpu=", maxConcurrentSteps: 1")
    worker = Worker(backends=("gpu", "cpu"))
    ada = somebody()
    for _ in range(ahead):
        run_on("gpu", *[node(f"g{each}") for each in range(16)], principal=ada)
    run_on("gpu", node("db", kind="service"), principal=ada)
    run_on("cpu", node("c"), principal=ada)

    assert [worker.claim(1) for _ in range(4)] == [["db"], ["g0"], ["c"], []]


def test_a_workspace_without_places_hides_no_step_of_another(settings: Any) -> None:
    few, other = somebody(), somebody()
    limit(
        settings.PLATFORM_SETTINGS_FILE,
        backend=", maxConcurrentSteps: 8",
        workspaces=f"[{{workspaceId: {few.workspace_id}, maxConcurrentSteps: 1}}]",
    )
    worker = Worker()
    for _ in range(8):
        booted_run(*[node(f"f{each}") for each in range(16)], principal=few)
    booted_run(*[node(f"o{each}") for each in range(10)], principal=other)

    assert Counter(each[0] for each in worker.claim(8)) == {"f": 1, "o": 7}


def test_a_flood_of_steps_hides_the_oldest_run_of_its_workspace_no_more_than_others(
    settings: Any,
) -> None:
    """The first step of the older run is done; the next was queued after all of the younger's."""
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 1")
    worker = Worker()
    ada = somebody()
    booted_run(node("a"), node("b", after=["a"]), principal=ada)
    for _ in range(8):
        booted_run(*[node(f"f{each}") for each in range(16)], principal=ada)
    assert worker.claim(1) == ["a"]
    worker.end("a")

    assert worker.claim(1) == ["b"]


@pytest.mark.parametrize("spread", [1, 12])
def test_a_claim_takes_the_same_few_queries_with_any_number_of_runs(
    settings: Any, spread: int, django_assert_max_num_queries: Any
) -> None:
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 2")
    worker = Worker()
    for _ in range(spread):
        queued_run(*[node(f"t{each}") for each in range(3)], principal=somebody())
    dispatch()
    worker.claim(1)

    with django_assert_max_num_queries(17):
        worker.claim(1)


@pytest.mark.store
def test_supervisors_that_claim_at_once_never_pass_a_limit(settings: Any) -> None:
    """Two control planes on one store: threads with connections of their own."""
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentSteps: 5")
    workers = [Worker(agent_id=f"runner-{nth}") for nth in range(4)]
    for _ in range(8):
        queued_run(*[node(f"t{each}") for each in range(4)], principal=somebody())
    dispatch()

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
    dispatch()
    third, fourth = grouped_run(ada), grouped_run(ada)
    foreign = grouped_run(somebody())
    dispatch()

    runs = (first, second, third, fourth, foreign)
    assert [run.status for run in runs] == ["Booting", "Booting", "Canceled", "Queued", "Booting"]
    assert f"superseded by {fourth.id} of the concurrency group main" in third.row.sentence
    waits = api.detail(ada, fourth.id)["queue"]["waitsFor"]
    assert waits == f"{first.id} of its concurrency group has not ended"


def test_cancel_in_progress_cancels_the_active_run_too() -> None:
    ada = somebody()
    first = grouped_run(ada)
    dispatch()

    second = grouped_run(ada, cancels=True)
    dispatch()

    assert (first.status, second.status) == ("Canceled", "Booting")
    assert api.detail(ada, second.id)["concurrency"] == {"group": "main", "cancelInProgress": True}


def test_an_active_run_that_a_launch_did_not_see_ends_at_the_next_admission() -> None:
    """Two launches at once: the older one was admitted before the newer one was stored."""
    ada = somebody()
    first = grouped_run(ada)
    dispatch()
    second = grouped_run(ada, "elsewhere", cancels=True)
    Execution.objects.filter(pk=second.pk).update(concurrency_group="main")

    dispatch()

    assert (first.status, second.status) == ("Canceled", "Booting")
    assert f"superseded by {second.id}" in first.row.sentence


def test_an_active_run_is_not_canceled_by_an_older_one_that_waits() -> None:
    ada = somebody()
    older = grouped_run(ada, "elsewhere", cancels=True)
    newer = grouped_run(ada)
    Execution.objects.filter(pk=newer.pk).update(status="Booting", booted_at=clock.now())
    Execution.objects.filter(pk=older.pk).update(concurrency_group="main")

    dispatch()

    assert (older.status, newer.status) == ("Queued", "Booting")


def test_an_admission_locks_what_control_planes_of_the_release_before_lock() -> None:
    """During an upgrade two of them would both give the last place."""
    queued_run(node("a"))
    dispatch()
    before = WorkLease.objects.get(name="admission").version

    queued_run(node("a"))
    dispatch()

    assert WorkLease.objects.get(name="admission").version > before


class Plays:
    """How often the queue was played forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        play = QueueOfRuns.expected_starts

        def counted(queue: QueueOfRuns) -> dict[str, float]:
            self.count += 1
            return play(queue)

        monkeypatch.setattr(QueueOfRuns, "expected_starts", counted)


def test_an_admission_plays_no_queue_forward(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = Plays(monkeypatch)
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentRuns: 1")
    for _ in range(3):
        booted_run(node("a"))

    assert plays.count == 0


def test_the_sweep_plays_the_queue_forward_once_in_a_while(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = Plays(monkeypatch)
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentRuns: 1")
    end_run(queued_run(node("a")), after_s=30)
    first, second = booted_run(node("a")), booted_run(node("a"))

    assert [forecast_starts(), forecast_starts()] == [1, 0]
    booted_run(node("a"))
    assert (forecast_starts(), plays.count) == (0, 1)  # within seconds of the last time
    assert first.row.expected_wait_ms is None
    assert second.row.expected_wait_ms is not None


def test_runs_that_start_beyond_what_is_played_are_left_alone_for_a_while(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_forecast, "MAX_EVENTS", 2)
    monkeypatch.setattr(start_forecasts, "_EACH_S", 0.0)
    plays = Plays(monkeypatch)
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentRuns: 1")
    end_run(queued_run(node("a")), after_s=30)
    for _ in range(4):
        booted_run(node("a"))

    assert [forecast_starts() for _ in range(3)] == [1, 0, 0]
    assert plays.count == 1
    forecast_pace.forget()
    recent_starts.forget()
    forecast_starts()
    assert plays.count == 2


def test_details_of_queued_runs_share_what_was_played_a_moment_ago(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = Plays(monkeypatch)
    limit(settings.PLATFORM_SETTINGS_FILE, backend=", maxConcurrentRuns: 1")
    end_run(queued_run(node("a")), after_s=30)
    ada = somebody()
    runs = [booted_run(node("a"), principal=ada) for _ in range(4)]

    details = [api.detail(ada, run.id) for run in (*runs, *runs)]

    assert [("expectedStart" in each.get("queue", {})) for each in details] == [
        False, True, True, True, False, True, True, True,
    ]  # fmt: skip
    assert plays.count == 1
    late = booted_run(node("a"), principal=ada)
    assert "expectedStart" in api.detail(ada, late.id)["queue"]
    assert plays.count == 2


@pytest.mark.store
def test_launches_of_a_group_at_once_leave_one_active_and_one_waiting() -> None:
    ada = somebody()
    at_once([partial(grouped_run, ada)] * 4)
    dispatch()

    statuses = sorted(Execution.objects.values_list("status", flat=True))
    assert statuses.count("Booting") == 1
    assert statuses.count("Canceled") == 3


def test_a_run_that_is_canceled_in_the_queue_leaves_its_turn(settings: Any) -> None:
    settings.EXECUTION_MAX_ACTIVE = 1
    ada = somebody()
    queued_run(node("a"), principal=ada)
    second, third = (queued_run(node("a"), principal=ada) for _ in range(2))
    dispatch()

    cancel(ada, second.id)

    assert summary(third.row)["queuePosition"] == 1
