"""The control plane in process, next to the store, without HTTP or credentials.

(reference: control-plane 15.1)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar, TypeVar

from django.db import DatabaseError

from apps.agents import api as agents
from apps.executions import api as executions
from apps.streams.api import DatastoreUnavailable, listen, release_stale_connection
from apps.workers import conf
from apps.workers.control_plane.report_batcher import FutureBridge, ReportBatcher
from kernel.agent_protocol import (
    NO_PROBES,
    NO_USAGE,
    ArtifactUpload,
    Completion,
    Job,
    JobDirective,
    LogChunk,
    ProbeProgress,
    StateReport,
    StepSpecBody,
    StepUsage,
)
from kernel.errors import PlatformError
from worker.domain.control_plane import (
    ControlPlaneError,
    ControlPlaneUnavailable,
    HeartbeatReport,
    LinesMissing,
    RegistrationResult,
    RequestRefused,
    StaleJob,
    Unregistered,
)

T = TypeVar("T")


class InProcessControlPlane:
    """Calls the use cases of executions, on its own threads."""

    in_order: ClassVar[bool] = True  # one queue, and each call of the store takes it in order

    def __init__(
        self, registration: agents.Registration, supervisor: executions.SupervisorSession
    ) -> None:
        self._registration = registration
        self._supervisor = supervisor
        self._batcher = ReportBatcher(
            lambda **reports: executions.record_reports(self._supervisor, **reports)
        )
        self._bridge = FutureBridge()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="store")
        nudges = [executions.work_nudge(each) for each in ("", supervisor.agent_id)]
        self._unsubscribe = [
            listen(name, self._batcher.work_may_wait) for name in (executions.WORK_NUDGE, *nudges)
        ]
        self._batcher.start()

    async def register(
        self, active: Sequence[Job], *, runtime_available: bool
    ) -> RegistrationResult:
        registration = replace(self._registration, runtime_available=runtime_available)
        await self._in_thread(lambda: agents.register(registration))
        adopted = await self._in_thread(lambda: executions.adopt(self._supervisor, active))
        return RegistrationResult(
            keep=adopted.keep,
            drop=adopted.drop,
            lease_grace_s=conf.lease_grace_s(),
        )

    async def serve(self, backends: Sequence[str]) -> None:
        """Claim steps of these backends from now on. Raises ControlPlaneUnavailable."""
        agent_id, incarnation = self._supervisor.agent_id, self._supervisor.incarnation
        self._registration = replace(self._registration, backends=tuple(backends))
        self._supervisor = replace(self._supervisor, backends=tuple(backends))
        await self._in_thread(lambda: agents.serve(agent_id, incarnation, backends))
        self._batcher.work_may_wait()

    async def deregister(self) -> None:
        """Remove the registration. Raises ControlPlaneUnavailable."""
        await self._in_thread(lambda: agents.remove(self._supervisor.agent_id))

    async def heartbeat(self, beat: HeartbeatReport) -> Sequence[str]:
        return await self._in_thread(lambda: self._heartbeat(beat))

    def _heartbeat(self, beat: HeartbeatReport) -> Sequence[str]:
        agents.heartbeat(
            self._supervisor.agent_id,
            incarnation=self._supervisor.incarnation,
            running_jobs=beat.running_jobs,
            runtime_available=beat.runtime_available,
            runs=beat.runs,
            failing_loops=beat.failing_loops,
        )
        return executions.releasable_runs(beat.runs)

    async def claim(self, limit: int) -> Sequence[StepSpecBody]:
        return await _answer(self._bridge, self._batcher.claim(limit))

    def renew(
        self,
        jobs: Sequence[Job],
        usage: Mapping[Job, StepUsage] = NO_USAGE,
        probes: Mapping[Job, ProbeProgress] = NO_PROBES,
    ) -> Sequence[JobDirective | None]:
        """Renew leases on the calling thread."""
        leases = translate_errors(lambda: executions.renew(self._supervisor, jobs, usage, probes))
        return [None if isinstance(lease, executions.StaleAttempt) else lease for lease in leases]

    async def report(self, report: StateReport) -> JobDirective:
        return await _answer(self._bridge, self._batcher.add(report))

    async def send(self, chunk: LogChunk) -> JobDirective:
        return await _answer(self._bridge, self._batcher.add(chunk))

    async def complete(self, completion: Completion) -> None:
        await _answer(self._bridge, self._batcher.add(completion))

    async def content(self, job: Job) -> bytes:
        return await self._in_thread(lambda: executions.source_content(self._supervisor, job))

    async def store(self, job: Job, upload: ArtifactUpload) -> None:
        await self._in_thread(lambda: executions.store_artifact(self._supervisor, job, upload))

    def on_directive(self, wake: Callable[[], None]) -> None:
        nudge = executions.jobs_nudge(self._supervisor.agent_id)
        self._unsubscribe.append(listen(nudge, wake))

    async def close(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        await asyncio.to_thread(self._batcher.stop)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: translate_errors(work))


def translate_errors(work: Callable[[], T]) -> T:
    """Do the work; translate errors of use cases and the store to the port's errors."""
    try:
        release_stale_connection()
        return work()
    except PlatformError as error:
        raise _translation(error) from error
    except DatabaseError as error:
        raise ControlPlaneUnavailable(f"the store failed: {type(error).__name__}") from error


def _translation(error: PlatformError) -> ControlPlaneError:
    match error:
        case executions.StaleAttempt() | executions.JobNotFound():
            return StaleJob(error.detail)
        case executions.LogGap():
            return LinesMissing(error.next_seq)
        case agents.AgentNotFound():
            return Unregistered(error.detail)
        case DatastoreUnavailable():
            return ControlPlaneUnavailable(error.detail)
        case _:
            return RequestRefused(error.detail)


async def _answer(bridge: FutureBridge, future: Future[T]) -> T:
    try:
        return await bridge.result_of(future)
    except PlatformError as error:
        raise _translation(error) from error
