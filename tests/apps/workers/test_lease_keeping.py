"""What a supervisor holds, and what it must let go (reference: control-plane 15.2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kernel.agent_protocol import Completion, Job, JobDirective, ProbeProgress, StepUsage
from tests.apps.workers.conftest import Stage
from worker.domain.control_plane import ControlPlaneUnavailable
from worker.supervisor import lease_keeper


async def test_a_job_that_is_another_attempts_is_dropped_with_its_unit(stage: Stage) -> None:
    """Invariant 7: a stale attempt has no effect, and its unit does not live on."""
    async with stage.supervisor():
        job = await stage.add("out:first", "sleep:0.2", "out:late", "serve")
        await stage.store.until(lambda: job.texts == ["first"])

        job.attempt = 2
        await stage.until_removed()

    assert job.texts == ["first"]
    assert job.outcome is None


async def test_a_lost_lease_drops_the_job(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("serve")
        await stage.store.state(job, "running")

        job.attempt = 2
        stage.last.wake()
        await stage.until_removed()


async def test_what_was_not_renewed_for_too_long_is_killed(stage: Stage) -> None:
    """Invariant 6: after a lease and 2/3 of its grace another supervisor may soon have the job."""
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("serve", leaseMs=300)
        await stage.store.state(job, "running")

        stage.store.away = True
        await stage.until_removed()
        assert job.outcome is None

        stage.store.away = False
        assert (await stage.store.outcome(job)).status == "canceled"


async def test_who_stood_still_asks_before_it_gives_anything_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariants 6 and 39: nobody took it meanwhile, so the same unit goes on."""
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("out:before", "sleep:0.6", "out:after", leaseMs=300)
        await stage.store.until(lambda: job.texts == ["before"])

        stood_still_s = 83.0
        monkeypatch.setattr(lease_keeper, "now_s", lambda: time.monotonic() + stood_still_s)
        outcome = await stage.store.outcome(job)

    assert (outcome.status, job.texts) == ("succeeded", ["before", "after"])
    assert len(stage.runtime.started) == 1


async def test_who_stood_still_drops_what_another_has_now(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 6: at its first wake-up."""
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("serve", leaseMs=300)
        await stage.store.state(job, "running")

        job.attempt = 2
        monkeypatch.setattr(lease_keeper, "now_s", lambda: time.monotonic() + 83.0)
        await stage.until_removed()

    assert job.outcome is None


@pytest.mark.slow
async def test_a_renewal_says_how_long_the_next_may_take(stage: Stage) -> None:
    stage.store.renewal_grace_s = 60.0
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("sleep:1.2", leaseMs=300)
        await stage.store.until(lambda: job.renewals > 0)

        stage.store.away = True
        await asyncio.sleep(0.8)  # longer than a lease and 2/3 of another
        stage.store.away = False

        assert (await stage.store.outcome(job)).status == "succeeded"


@pytest.mark.slow
async def test_a_claim_that_may_be_older_than_its_lease_is_confirmed_first(stage: Stage) -> None:
    """Invariant 6: a host that stood still finds the answer to an old claim when it wakes up."""
    async with stage.supervisor(lease_s=0.2) as supervisor:
        first = await stage.add("out:x", node_id="first", leaseMs=200)
        await stage.store.outcome(first)  # with it the run's files are there: nobody is asked
        await asyncio.sleep(0.4)  # the claim waits, longer than a lease
        await stage.add("serve", node_id="taken", current_attempt=2, leaseMs=200)
        await asyncio.sleep(0.4)
        ours = await stage.add("out:x", node_id="ours", leaseMs=200)

        assert (await stage.store.outcome(ours)).status == "succeeded"
        await supervisor.until_idle()

    assert [name.rpartition("-")[0] for name in stage.runtime.started] == [
        f"partita-{stage.run_id}-first",
        f"partita-{stage.run_id}-ours",
    ]


@pytest.mark.slow
async def test_the_grace_that_the_control_plane_names_is_waited_for(stage: Stage) -> None:
    stage.store.lease_grace_s = 60
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("sleep:0.9", leaseMs=300)
        await stage.store.state(job, "running")

        stage.store.away = True
        await asyncio.sleep(0.8)  # longer than a lease and 2/3 of another
        stage.store.away = False

        assert (await stage.store.outcome(job)).status == "succeeded"


async def test_leases_are_renewed_while_the_loop_is_busy(stage: Stage) -> None:
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("serve", leaseMs=300)
        await stage.store.state(job, "running")
        before = job.renewals

        blocked = asyncio.get_running_loop().time() + 0.6
        while asyncio.get_running_loop().time() < blocked:
            pass  # a step that starves the loop

        assert job.renewals - before >= 3


async def test_lines_wait_for_a_control_plane_that_is_away(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:before", "sleep:0.3", "out:after")
        await stage.store.until(lambda: job.texts == ["before"])

        stage.store.away = True
        await asyncio.sleep(0.6)
        stage.store.away = False
        outcome = await stage.store.outcome(job)

    assert (outcome.status, job.texts) == ("succeeded", ["before", "after"])


class Renewals:
    """A control plane whose answer to the first renewal takes `slow_s`; the later ones fail."""

    def __init__(self, slow_s: float) -> None:
        self.now = 1000.0
        self._slow_s = slow_s
        self._answered = False

    def renew(
        self,
        jobs: Sequence[Job],
        _usage: Mapping[Job, StepUsage],
        _probes: Mapping[Job, ProbeProgress],
    ) -> list[JobDirective | None]:
        if self._answered:
            raise ControlPlaneUnavailable("away")
        self._answered = True
        self.now += self._slow_s
        return [JobDirective() for _ in jobs]


@pytest.mark.parametrize("slow_s", [0.0, 40.0], ids=["quick", "slow"])
def test_a_job_is_given_up_well_before_another_may_have_it(
    monkeypatch: pytest.MonkeyPatch, slow_s: float
) -> None:
    """Invariant 6: a lease and 2/3 of its grace after the renewal was asked for, not answered."""
    plane: Any = Renewals(slow_s)
    monkeypatch.setattr(lease_keeper, "now_s", lambda: plane.now)
    expired: list[Job] = []
    keeper = lease_keeper.LeaseKeeper(
        plane,
        usage=lambda _job: None,
        on_directive=lambda _job, _directive: None,
        on_expired=expired.append,
    )
    job = Job(job_id="job", attempt=1)
    keeper.hold(job, lease_s=30.0)
    for _ in range(4):
        keeper._renew([job])

    plane.now = 1000.0 + 49
    keeper.expire()
    assert expired == []
    plane.now = 1000.0 + 51
    keeper.expire()
    assert expired == [job]


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_renewal_beside_the_completion_removes_nothing_that_is_kept(
    stage: Stage, *, is_kept: bool
) -> None:
    """The job is over for the control plane while its answer to the completion is on the way."""
    async with stage.supervisor():
        complete = stage.last.complete

        async def complete_and_answer_late(completion: Completion) -> None:
            await complete(completion)
            stage.last.wake()  # all leases are renewed
            await asyncio.Event().wait()

        stage.last.complete = complete_and_answer_late  # type: ignore[method-assign]
        job = await stage.add("exit:3", keepUnits=is_kept)
        await stage.store.outcome(job)
        beats = len(stage.store.beats)
        await stage.store.until(
            lambda: any(not beat.running_jobs for beat in stage.store.beats[beats:])
        )

        assert len(stage.runtime.units) == is_kept
