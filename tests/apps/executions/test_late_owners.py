"""A supervisor that was away for long: waited for where nobody could replace it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from apps.executions.models import Execution, Step
from apps.executions.services import sweep as sweeping
from apps.executions.services.sweep import sweep
from kernel import clock
from tests.apps.executions.runs import Run, Worker, booted_run, let_leases_lapse, node, stand_still

pytestmark = pytest.mark.store
SHARED = """\
mode: hybrid
agents:
  - {agentId: local-docker, name: Far, type: remote-docker, hostUrl: "https://docker.example:2376",
     default: true}
"""


def held_run(worker: Worker) -> Run:
    """A store that serves, and a task that must not run twice."""
    run = booted_run(node("store", kind="service"), node("migrate", after=["store"]))
    worker.claim()
    worker.report("store", "running")
    worker.report("store", "healthy")
    worker.claim()
    worker.report("migrate", "running")
    return run


def test_an_owner_that_nobody_could_replace_is_waited_for_and_goes_on(worker: Worker):
    """Invariants 6, 9, 39: however late, it has the attempt that nobody took."""
    run = held_run(worker)
    stand_still(83)
    sweep()

    assert [lease.status for lease in worker.renew("store", "migrate")] == ["running", "running"]
    worker.end("migrate")
    assert {step: run.step(step).attempt for step in run.statuses} == {"store": 1, "migrate": 1}
    assert run.statuses["migrate"] == "healthy"


def test_its_successor_adopts_what_still_lives(worker: Worker):
    run = held_run(worker)
    stand_still(300)
    sweep()
    kept = worker.restarted().adopt(*worker.jobs.values()).keep
    assert [each.job.attempt for each in kept] == [1, 1]
    assert set(run.statuses.values()) == {"healthy", "running"}


def test_it_is_waited_for_up_to_the_setting(worker: Worker, settings):
    """Invariant 5."""
    settings.LEASE_OWNER_PATIENCE_S = 100
    run = held_run(worker)
    stand_still(129)
    sweep()
    assert run.row.failing is False
    stand_still(131)
    sweep()
    assert run.reasons["migrate"] == "agent_lost"


def test_where_another_could_go_on_it_is_not_waited_for(worker: Worker):
    run = held_run(worker)
    stand_still(83)
    Worker("runner-2")
    sweep()
    assert run.reasons["migrate"] == "agent_lost"


def test_a_shared_engine_is_left_to_the_other_runners(worker: Worker, settings, tmp_path: Path):
    run = held_run(worker)
    (tmp_path / "shared.yaml").write_text(SHARED)
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "shared.yaml"
    stand_still(83)
    sweep()
    assert run.reasons["migrate"] == "agent_lost"


def test_a_renewal_says_how_long_it_could_come_late(worker: Worker):
    held_run(worker)
    assert [lease.lease_grace_s for lease in worker.renew("store")] == [600]
    Worker("runner-2")
    assert [lease.lease_grace_s for lease in worker.renew("store")] == [30]


def test_what_is_queued_waits_with_the_run_and_stays_with_its_owner(worker: Worker):
    """Its service runs on the engine of the owner: elsewhere the step would not find it."""
    run = booted_run(node("store", kind="service"), node("migrate", after=["store"]))
    worker.claim()
    worker.report("store", "running")
    worker.report("store", "healthy")
    long_ago = clock.now() - timedelta(seconds=83)
    Step.objects.filter(step_id="migrate").update(queued_at=long_ago)
    stand_still(83)
    sweep()
    assert run.statuses == {"store": "healthy", "migrate": "queued"}
    assert Execution.objects.get().bound_agent_id == worker.agent_id


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time_of_the_sweep(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(sweeping, "_now_s", made)
    return made


def test_whoever_sweeps_after_a_pause_gives_the_others_time_to_return(
    worker: Worker, time_of_the_sweep: Clock
):
    """All of `up`, or the machine, stood still: nobody is late yet."""
    presence = sweeping.ContinuousUptime()
    run = held_run(worker)
    time_of_the_sweep.now_s += 3_600
    let_leases_lapse()
    sweep(presence)
    assert run.row.failing is False
    for _ in range(4):
        time_of_the_sweep.now_s += 8
        sweep(presence)
    assert run.reasons["migrate"] == "agent_lost"


def test_a_sweep_that_is_slow_as_a_whole_is_no_pause(
    worker: Worker, time_of_the_sweep: Clock, monkeypatch: pytest.MonkeyPatch
):
    """On a busy machine each kind of work takes seconds; leases still end."""

    def slow() -> None:
        time_of_the_sweep.now_s += 4

    works = [each for work in sweeping._WORK for each in (work, slow)]
    monkeypatch.setattr(sweeping, "_WORK", works)
    presence = sweeping.ContinuousUptime()
    run = held_run(worker)
    sweep(presence)
    let_leases_lapse()
    assert run.row.failing is False
    sweep(presence)
    assert run.reasons["migrate"] == "agent_lost"
