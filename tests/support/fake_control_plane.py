"""A control plane in memory: fences, numbers lines, hands out work.

(reference: control-plane 15.2)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kernel.agent_protocol import (
    NO_PROBES,
    NO_USAGE,
    AdoptedJob,
    ArtifactUpload,
    Completion,
    Job,
    JobDirective,
    LogChunk,
    LogLine,
    ProbeProgress,
    StateReport,
    StepUsage,
)
from tests.support import steps
from worker.domain.control_plane import (
    ControlPlaneUnavailable,
    HeartbeatReport,
    LinesMissing,
    RegistrationResult,
    StaleJob,
)


@dataclass
class FakeJob:
    spec: Mapping[str, Any]
    attempt: int
    incarnation: int | None = None
    states: list[tuple[str, str]] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    position: int = 0
    outcome: Completion | None = None
    cancel_reason: str = ""
    uploads: list[ArtifactUpload] = field(default_factory=list)
    renewals: int = 0
    usages: list[StepUsage] = field(default_factory=list)  # told with renewals
    probes: list[ProbeProgress] = field(default_factory=list)  # as well
    chunks: int = 0

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines if line.kind == "output"]

    @property
    def job(self) -> Job:
        return Job(job_id=self.spec["jobId"], attempt=self.attempt)


class Store:
    """What outlives supervisors; each reaches it through a `FakeControlPlane` of its own."""

    def __init__(self) -> None:
        self.jobs: dict[str, FakeJob] = {}
        self.pending: list[str] = []
        self.released: set[str] = set()
        self.beats: list[HeartbeatReport] = []
        self.away = False
        self.lease_grace_s: float | None = None
        self.renewal_grace_s: float | None = None
        self.incarnation = 0
        self.changed = asyncio.Condition()
        self.files = {"tasks/hello.sh": "echo hello\n"}

    async def add(self, spec: Mapping[str, Any], *, attempt: int = 0) -> FakeJob:
        """`attempt`: the current one, when the claim of `spec` comes too late."""
        job = FakeJob(spec=spec, attempt=attempt or spec["attempt"])
        self.jobs[spec["jobId"]] = job
        self.pending.append(spec["jobId"])
        await self.notify()
        return job

    async def notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def until(self, holds: Callable[[], bool], *, within_s: float = 20) -> None:
        async with asyncio.timeout(within_s), self.changed:
            await self.changed.wait_for(holds)

    async def outcome(self, job: FakeJob, *, within_s: float = 20) -> Completion:
        await self.until(lambda: job.outcome is not None, within_s=within_s)
        assert job.outcome is not None
        return job.outcome

    async def state(self, job: FakeJob, state: str, *, within_s: float = 20) -> None:
        await self.until(lambda: state in [name for name, _ in job.states], within_s=within_s)


class FakeControlPlane:
    in_order: ClassVar[bool] = False

    def __init__(self, store: Store) -> None:
        self.kept = store
        self.lease_grace_s: float | None = None
        self.incarnation = 0
        self.wake: Callable[[], None] = lambda: None

    def cancel(self, job: FakeJob, reason: str) -> None:
        job.cancel_reason = reason
        self.wake()

    def _held(self, job: Job) -> FakeJob:
        if self.kept.away:
            raise ControlPlaneUnavailable("the fake control plane is away")
        held = self.kept.jobs.get(job.job_id)
        if held is None or held.attempt != job.attempt or held.incarnation != self.incarnation:
            raise StaleJob("not yours")
        return held

    async def register(
        self, active: Sequence[Job], *, runtime_available: bool
    ) -> RegistrationResult:
        del runtime_available
        if self.kept.away:
            raise ControlPlaneUnavailable("the fake control plane is away")
        self.kept.incarnation += 1
        self.incarnation = self.kept.incarnation
        keep = []
        for job in active:
            held = self.kept.jobs.get(job.job_id)
            if held and held.attempt == job.attempt and held.outcome is None:
                held.incarnation = self.incarnation
                keep.append(
                    AdoptedJob(
                        job=job,
                        next_seq=len(held.lines),
                        position=held.position,
                        spec=held.spec,
                    )
                )
        kept = {each.job.job_id for each in keep}
        drop = tuple(job.job_id for job in active if job.job_id not in kept)
        grace_s = self.kept.lease_grace_s
        return RegistrationResult(
            keep=tuple(keep), drop=drop, heartbeat_s=0.5, lease_grace_s=grace_s
        )

    async def heartbeat(self, beat: HeartbeatReport) -> Sequence[str]:
        self.kept.beats.append(beat)
        await self.kept.notify()
        return [run for run in beat.runs if run in self.kept.released]

    async def claim(self, limit: int) -> Sequence[Mapping[str, Any]]:
        async with self.kept.changed:
            await self.kept.changed.wait_for(lambda: bool(self.kept.pending))
            claimed = self.kept.pending[:limit]
            del self.kept.pending[:limit]
        for job_id in claimed:
            self.kept.jobs[job_id].incarnation = self.incarnation
        return [self.kept.jobs[job_id].spec for job_id in claimed]

    def renew(
        self,
        jobs: Sequence[Job],
        usage: Mapping[Job, StepUsage] = NO_USAGE,
        probes: Mapping[Job, ProbeProgress] = NO_PROBES,
    ) -> Sequence[JobDirective | None]:
        if self.kept.away:
            raise ControlPlaneUnavailable("the fake control plane is away")
        for job, probe in probes.items():
            self.kept.jobs[job.job_id].probes.append(probe)
        return [self._renewed(job, usage.get(job)) for job in jobs]

    def _renewed(self, job: Job, usage: StepUsage | None) -> JobDirective | None:
        try:
            held = self._held(job)
        except StaleJob:
            return None
        held.renewals += 1
        held.usages += [usage] if usage else []
        grace_s = self.kept.renewal_grace_s
        return JobDirective(cancel_reason=held.cancel_reason, lease_grace_s=grace_s)

    async def report(self, report: StateReport) -> JobDirective:
        held = self._held(report.job)
        held.states.append((report.state, report.message))
        await self.kept.notify()
        return JobDirective(cancel_reason=held.cancel_reason)

    async def send(self, chunk: LogChunk) -> JobDirective:
        held = self._held(chunk.job)
        if chunk.seq > len(held.lines):
            raise LinesMissing(len(held.lines))
        assert len(chunk.lines) <= 1000
        held.chunks += 1
        held.lines += chunk.lines[len(held.lines) - chunk.seq :]
        held.position = max(held.position, chunk.position)
        await self.kept.notify()
        return JobDirective(cancel_reason=held.cancel_reason)

    async def complete(self, completion: Completion) -> None:
        held = self._held(completion.job)
        if (completion.final_seq or 0) > len(held.lines):
            raise LinesMissing(len(held.lines))
        held.outcome = completion
        held.incarnation = None
        await self.kept.notify()

    async def content(self, job: Job) -> bytes:
        self._held(job)
        return steps.content(self.kept.files)

    async def store(self, job: Job, upload: ArtifactUpload) -> None:
        self._held(job).uploads.append(upload)

    def on_directive(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    async def close(self) -> None:
        self.wake = lambda: None


class OrderlyFakeControlPlane(FakeControlPlane):
    in_order: ClassVar[bool] = True
