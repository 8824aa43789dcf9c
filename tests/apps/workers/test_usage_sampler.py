"""What running steps use is told with renewals and completions.

(reference: control-plane 11.2, 15.1)
"""

from __future__ import annotations

import asyncio

import pytest

from kernel.agent_protocol import StepUsage
from tests.apps.workers.conftest import Stage
from tests.support.fake_control_plane import FakeJob
from worker.supervisor import attempt

LOW = StepUsage(cpu_percent=2.5, memory_bytes=10)
HIGH = StepUsage(cpu_percent=80.0, memory_bytes=90)


async def until_reported(job: FakeJob, usage: StepUsage) -> None:
    async with asyncio.timeout(5):
        while usage not in job.usages:  # noqa: ASYNC110 - renewals come from a thread
            await asyncio.sleep(0.01)


async def test_usage_goes_with_renewals_and_the_completion(stage: Stage) -> None:
    stage.runtime.usages = [HIGH, LOW]
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("serve", leaseMs=300)
        last = StepUsage(cpu_percent=2.5, memory_bytes=10, memory_peak_bytes=90)

        await until_reported(job, last)
        stage.last.cancel(job, "canceled")
        outcome = await stage.store.outcome(job)

    assert outcome.usage == last


async def test_a_peak_that_the_runtime_has_seen_counts(stage: Stage) -> None:
    stage.runtime.usages = [StepUsage(cpu_percent=None, memory_bytes=10, memory_peak_bytes=70), LOW]
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("serve", leaseMs=300)

        await until_reported(job, StepUsage(cpu_percent=2.5, memory_bytes=10, memory_peak_bytes=70))


async def test_a_service_is_looked_at_too(stage: Stage) -> None:
    service = {"kind": "service", "ready": {"log": "open"}}
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("out:open", "serve", node=service, leaseMs=300)

        await until_reported(
            job, StepUsage(cpu_percent=12.5, memory_bytes=34 * 2**20, memory_peak_bytes=34 * 2**20)
        )


async def test_a_short_step_has_a_look_long_before_its_first_renewal(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "FIRST_SAMPLE_S", 0.05)
    stage.runtime.usages = [LOW]
    async with stage.supervisor():
        job = await stage.add("sleep:0.3")

        outcome = await stage.store.outcome(job)

    assert job.renewals == 0
    assert outcome.usage == StepUsage(cpu_percent=2.5, memory_bytes=10, memory_peak_bytes=10)


async def test_nothing_is_looked_at_when_the_profile_turns_metrics_off(stage: Stage) -> None:
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("sleep:0.5", leaseMs=300, observability={"metrics": False})

        outcome = await stage.store.outcome(job)

    assert stage.runtime.looked == []
    assert job.renewals > 0
    assert job.usages == []
    assert outcome.usage is None


async def test_a_unit_that_has_ended_is_not_looked_at(stage: Stage) -> None:
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("sleep:0.3", leaseMs=300)
        await stage.store.outcome(job)
        looks = len(stage.runtime.looked)
        await asyncio.sleep(0.3)

    assert looks > 0
    assert len(stage.runtime.looked) == looks


@pytest.mark.slow
async def test_a_look_that_hangs_delays_no_renewal_and_no_end(stage: Stage) -> None:
    stage.runtime.usage_hangs = True
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("sleep:0.8", leaseMs=300)

        outcome = await stage.store.outcome(job)

    assert (outcome.status, outcome.usage) == ("succeeded", None)
    assert job.renewals >= 4


@pytest.mark.slow
async def test_a_look_that_fails_is_only_missing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "SAMPLE_TIMEOUT_S", 0.05)
    stage.runtime.usage_hangs = True
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("sleep:0.8", leaseMs=300)
        async with asyncio.timeout(5):
            while not stage.runtime.looked:  # noqa: ASYNC110 - the fake tells nobody
                await asyncio.sleep(0.01)
        stage.runtime.usage_hangs = False

        outcome = await stage.store.outcome(job)

    assert outcome.usage is not None
