"""What a service that is not ready waits for is told while it waits, not too often."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.agent_protocol import Job, JobDirective
from tests.apps.workers.conftest import Stage
from tests.apps.workers.test_probes import SERVICE, AskedInside
from worker.domain.readiness import ProbeResponse
from worker.supervisor import lease_keeper, probe_progress
from worker.supervisor.probe_progress import ProbeWatch

WAITS = SERVICE | {"ready": {"http": "/health", "timeoutMs": 60_000, "intervalMs": 20}}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_progress, "CHANGED_S", 0.05)
    monkeypatch.setattr(probe_progress, "UNCHANGED_S", 0.1)


@pytest.mark.usefixtures("quick")
async def test_a_waiting_service_tells_the_answer_the_tries_and_the_time_left(
    stage: Stage,
) -> None:
    stage.runtime = AskedInside(ProbeResponse(status=503))
    async with stage.supervisor():
        job = await stage.add("serve", node=WAITS)
        async with asyncio.timeout(5):
            while len(job.probes) < 3:  # noqa: ASYNC110 - the fake tells nobody
                await asyncio.sleep(0.01)

    first, *_, last = job.probes
    assert {probe.answer for probe in job.probes} == {"/health on port 8080 answered 503"}
    assert first.tries < last.tries
    assert 0 < last.time_left_ms < first.time_left_ms < 60_000


@pytest.mark.usefixtures("quick")
async def test_a_service_that_is_healthy_tells_nothing_more(stage: Stage) -> None:
    runtime = stage.runtime = AskedInside(ProbeResponse(problem="port 8080: refused"))
    async with stage.supervisor() as supervisor:
        job = await stage.add("serve", node=WAITS)
        async with asyncio.timeout(5):
            while not job.probes:  # noqa: ASYNC110 - the fake tells nobody
                await asyncio.sleep(0.01)
        runtime._answer = ProbeResponse(status=200)
        await stage.store.state(job, "healthy")
        (step,) = supervisor._runs.values()
        assert step.attempt.probing.latest is None


async def test_a_service_that_is_ready_at_once_tells_nothing(stage: Stage) -> None:
    stage.runtime = AskedInside(ProbeResponse(status=200))
    async with stage.supervisor():
        job = await stage.add("serve", node=WAITS)
        await stage.store.state(job, "healthy")

    assert job.probes == []


@pytest.mark.usefixtures("quick")
async def test_a_service_that_waits_for_a_line_tells_which(stage: Stage) -> None:
    waits = {"kind": "service", "ready": {"log": "listening", "timeoutMs": 60_000}}
    async with stage.supervisor():
        job = await stage.add("serve", node=waits)
        async with asyncio.timeout(5):
            while not job.probes:  # noqa: ASYNC110 - the fake tells nobody
                await asyncio.sleep(0.01)

    assert (job.probes[0].answer, job.probes[0].tries) == ("no line contains 'listening' yet", 0)


class Clock:
    """The time of a watch, which a test moves, and the reports that it counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.reports: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def report(self) -> None:
        self.reports.append(self.now - 100.0)


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    with monkeypatch.context() as patch:
        yield Clock(patch)


def watch(clock: Clock) -> ProbeWatch:
    made = ProbeWatch(report_soon=clock.report, mask=lambda text: text.replace("s3cret", "***"))
    made.begin(60)
    return made


def test_the_same_answer_is_told_each_five_seconds(moved: Clock) -> None:
    probing = watch(moved)
    for _ in range(60):
        moved.now += 0.25
        if moved.now - 100 >= 1:
            probing.note("refused")

    assert moved.reports == [1.0, 6.0, 11.0]


async def test_another_answer_is_told_once_a_second_at_most(moved: Clock) -> None:
    probing = watch(moved)
    for number in range(40):
        moved.now += 0.25
        probing.note(f"answer {number}")
    probing.end()

    gaps = [after - before for before, after in zip(moved.reports, moved.reports[1:], strict=False)]
    assert len(moved.reports) == 10
    assert min(gaps) >= 1


async def test_an_answer_is_masked_bounded_and_on_one_line(moved: Clock) -> None:
    probing = watch(moved)
    probing.note("token s3cret\n\0" + "x" * 300)

    assert probing.latest is not None
    assert probing.latest.answer == ("token ***  " + "x" * 300)[:200]
    probing.end()
    assert probing.latest is None


class Leases:
    """A control plane that remembers which leases were renewed together."""

    def __init__(self) -> None:
        self.renewals: list[list[str]] = []
        self.renewed = threading.Event()

    def renew(self, jobs: Any, _usage: Any, _probes: Any) -> list[JobDirective]:
        self.renewals.append([job.job_id for job in jobs])
        self.renewed.set()
        return [JobDirective() for _ in jobs]


def test_a_report_renews_the_lease_of_its_job_alone() -> None:
    plane: Any = Leases()
    keeper = lease_keeper.LeaseKeeper(
        plane,
        usage=lambda _job: None,
        on_directive=lambda _job, _directive: None,
        on_expired=lambda _job: None,
    )
    jobs = [Job(job_id=name, attempt=1) for name in ("db", "api")]
    for job in jobs:
        keeper.hold(job, lease_s=30.0)
    keeper.start()
    keeper.report_soon(jobs[1])
    assert plane.renewed.wait(30)
    keeper.stop()

    assert plane.renewals[0] == ["api"]
