"""Jobs of callers that use this worker's API directly and receive a stream of records.

No control plane knows these jobs: they have no lease, claim or capacity, and end with the
connection of their caller.

(reference: control-plane 15.3, `run`)
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NotRequired, TypedDict

from kernel import clock
from kernel.agent_protocol import (
    ArtifactUpload,
    Completion,
    Job,
    JobDirective,
    LogChunk,
    StateReport,
)
from kernel.errors import PlatformError
from worker.domain.runtime import Runtime
from worker.domain.step_spec import StepSpec
from worker.supervisor.attempt import StepAttempt, StepContext, SupervisorOptions
from worker.supervisor.readiness_prober import ReadinessProber
from worker.supervisor.spool import SpoolSpace
from worker.supervisor.step_run import StepRun

REMEMBERED_S: Final = 3600.0
PING_S: Final = 15.0
_WAITING: Final = 256  # records between a job and its caller before the job waits


class LineFields(TypedDict):
    time: str
    level: str
    kind: str
    text: str
    continued: NotRequired[bool]


class RecordFields(TypedDict, total=False):
    """What the types of records have: `state`, `log`, `done`, `artifact`, in this order."""

    state: str
    message: str
    seq: int
    line: LineFields
    status: str
    error: str
    reason: str
    exitCode: int
    missingArtifacts: list[dict[str, str]]
    path: str
    name: str
    format: str
    contentBase64: str


class DirectRunRecord(RecordFields):
    """A record on the wire; one of the type `ping` has no fields."""

    type: str
    jobId: str
    attempt: int


class JobRunning(PlatformError):
    code = "job_running"

    def __init__(self) -> None:
        super().__init__("this attempt is already running here")


class AttemptOver(PlatformError):
    code = "stale_attempt"

    def __init__(self) -> None:
        super().__init__("this attempt, or a later one, has already run here")


class DirectCaller:
    """The port of a directly called job: turns its reports into records for the connection."""

    in_order: ClassVar[bool] = False

    def __init__(self, files: bytes | None) -> None:
        self._files = files
        self._records: asyncio.Queue[DirectRunRecord | None] = asyncio.Queue(_WAITING)
        self._gone = False

    async def report(self, report: StateReport) -> JobDirective:
        fields: RecordFields = {"state": report.state}
        if report.message:
            fields["message"] = report.message
        await self._put(report.job, "state", fields)
        return JobDirective()

    async def send(self, chunk: LogChunk) -> JobDirective:
        for seq, line in enumerate(chunk.lines, start=chunk.seq):
            wire: LineFields = {
                "time": clock.rfc3339(line.time),
                "level": line.level,
                "kind": line.kind,
                "text": line.text,
            }
            if line.continued:
                wire["continued"] = True
            await self._put(chunk.job, "log", {"seq": seq, "line": wire})
        return JobDirective()

    async def complete(self, completion: Completion) -> None:
        fields: RecordFields = {"status": completion.status}
        if completion.error:
            fields["error"] = completion.error
        if completion.reason:
            fields["reason"] = completion.reason
        if completion.exit_code is not None:
            fields["exitCode"] = completion.exit_code
        if completion.missing_artifacts:
            fields["missingArtifacts"] = [
                {"path": each.path, "hint": each.hint} for each in completion.missing_artifacts
            ]
        await self._put(completion.job, "done", fields)

    async def content(self, job: Job) -> bytes:
        del job
        return self._files or b""  # a node with a file was refused without them

    async def store(self, job: Job, upload: ArtifactUpload) -> None:
        fields: RecordFields = {"path": upload.path, "format": upload.format}
        if upload.name:
            fields["name"] = upload.name
        if upload.body:
            fields["contentBase64"] = base64.b64encode(upload.body).decode()
        await self._put(job, "artifact", fields)

    async def _put(self, job: Job, kind: str, fields: RecordFields) -> None:
        if not self._gone:
            await self._records.put(
                {"type": kind, "jobId": job.job_id, "attempt": job.attempt, **fields}
            )

    async def end(self) -> None:
        if not self._gone:
            await self._records.put(None)

    def leave(self) -> None:
        """Drop the records from now on: the caller has disconnected."""
        self._gone = True
        while not self._records.empty():
            self._records.get_nowait()

    async def records(self, job: Job) -> AsyncGenerator[DirectRunRecord]:
        while True:
            try:
                async with asyncio.timeout(PING_S):
                    record = await self._records.get()
            except TimeoutError:
                yield {"type": "ping", "jobId": job.job_id, "attempt": job.attempt}
                continue
            if record is None:
                return
            yield record


@dataclass(slots=True)
class _DirectJob:
    attempt: StepAttempt
    caller: DirectCaller
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ended_at: float = 0.0


class DirectRuns:
    """The running and recently ended jobs of direct callers."""

    def __init__(self, runtime: Runtime, options: SupervisorOptions) -> None:
        self._prober = ReadinessProber(runtime)
        self._context = StepContext(
            control_plane=DirectCaller(None),  # each job gets its own
            runtime=runtime,
            options=options,
            space=SpoolSpace(options.state_dir / "direct-spool"),
            prober=self._prober,
        )
        self._jobs: dict[str, _DirectJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, spec: StepSpec, files: bytes | None) -> AsyncGenerator[DirectRunRecord]:
        """Start a job and return its records. Raises JobRunning, AttemptOver.

        Closing the records early cancels the job.
        """
        await self._end_earlier_attempt(spec)
        caller = DirectCaller(files)
        unmeasured = replace(spec, measured=False)  # callers receive no usage
        context = replace(self._context, control_plane=caller)
        job = _DirectJob(StepAttempt(unmeasured, context), caller)
        self._jobs[spec.job_id] = job
        task = asyncio.create_task(self._run(job), name=spec.job_id)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return self._listen(job)

    async def _end_earlier_attempt(self, spec: StepSpec) -> None:
        """End an earlier attempt of the job, so that two never run at once."""
        self._forget_old()
        known = self._jobs.get(spec.job_id)
        if known is None:
            return
        if spec.attempt == known.attempt.spec.attempt and not known.ended.is_set():
            raise JobRunning
        if spec.attempt <= known.attempt.spec.attempt:
            raise AttemptOver
        _cancel(known)
        await known.ended.wait()

    async def _run(self, job: _DirectJob) -> None:
        try:
            await StepRun(job.attempt).run()
        finally:
            job.ended_at = time.monotonic()
            job.ended.set()
            await job.caller.end()

    async def _listen(self, job: _DirectJob) -> AsyncGenerator[DirectRunRecord]:
        try:
            async for record in job.caller.records(job.attempt.job):
                yield record
        finally:
            job.caller.leave()
            _cancel(job)

    async def close(self) -> None:
        """Leave running units to the next process, which removes them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._prober.close()

    def cancel(self, job_id: str = "") -> bool:
        jobs = [job for job in self._running() if job_id in ("", job.attempt.spec.job_id)]
        for job in jobs:
            _cancel(job)
        return bool(jobs)

    async def until_idle(self, job_id: str = "") -> None:
        for job in self._running():
            if job_id in ("", job.attempt.spec.job_id):
                await job.ended.wait()

    @property
    def running(self) -> int:
        return len(self._running())

    def runs(self) -> frozenset[str]:
        """Return the runs of current and remembered jobs, which no control plane may remove."""
        self._forget_old()
        return frozenset(job.attempt.spec.execution_id for job in self._jobs.values())

    def run_of(self, job_id: str) -> str:
        """Return the run of a job; empty if the job is unknown or forgotten."""
        self._forget_old()
        job = self._jobs.get(job_id)
        return job.attempt.spec.execution_id if job else ""

    def active_runs(self) -> frozenset[str]:
        return frozenset(job.attempt.spec.execution_id for job in self._running())

    def _running(self) -> list[_DirectJob]:
        return [job for job in self._jobs.values() if not job.ended.is_set()]

    def _forget_old(self) -> None:
        limit = time.monotonic() - REMEMBERED_S
        for job_id, job in list(self._jobs.items()):
            if job.ended.is_set() and job.ended_at < limit:
                del self._jobs[job_id]


def _cancel(job: _DirectJob) -> None:
    job.attempt.apply_directive(JobDirective(cancel_reason="canceled"))
