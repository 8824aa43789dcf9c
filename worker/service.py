"""What a worker does for one installation: claimed jobs, those of direct callers, their removal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kernel.background import keep_running
from worker.control_plane.client import ControlPlaneClient
from worker.control_plane.held_jobs import HeldJobs
from worker.control_plane.http import HttpControlPlane
from worker.direct_runs import DirectRunRecord, DirectRuns
from worker.domain.control_plane import ControlPlaneError, HeartbeatReport
from worker.domain.runtime import RemovedResources, Runtime, RuntimeFailure
from worker.domain.step_spec import StepSpec
from worker.supervisor.retry import retry_until_answered
from worker.supervisor.supervisor import Supervisor, SupervisorOptions

log = logging.getLogger("partita.workers")
STOP_S: Final = 30.0  # for canceled jobs: SIGTERM, 10 s, SIGKILL, their last lines
_LEAVE_S: Final = 10.0
_AGAIN_S: Final = 1.0  # between two registrations: another worker may bear the same name


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneConnection:
    """The control plane and the ways to it; a worker may have none."""

    control_plane: HttpControlPlane
    calls: ControlPlaneClient
    held: HeldJobs


class WorkerService:
    """`await run()` until canceled or `drain()`."""

    def __init__(
        self,
        runtime: Runtime,
        options: SupervisorOptions,
        connection: ControlPlaneConnection | None,
    ) -> None:
        self._runtime = runtime
        self._owner = options.owner
        self._direct = DirectRuns(runtime, options)
        self._connection = connection
        self._supervisor = (
            Supervisor(connection.control_plane, runtime, options) if connection else None
        )

    async def run(self) -> None:
        """Raises RequestRefused, InstallationChanged: as it is set up, it cannot work."""
        if self._supervisor is None or self._connection is None:
            await self._remove_leftovers()
            await asyncio.Event().wait()
            return
        supervising = asyncio.create_task(self._supervisor.run())
        registration = partial(self._keep_registered, self._supervisor, self._connection.calls)
        registering = asyncio.create_task(
            keep_running("registration", registration, passing=(ControlPlaneError,))
        )
        try:
            done, _ = await asyncio.wait(
                {supervising, registering}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        finally:
            registering.cancel()
            self._supervisor.stop()  # before its first registration it waits for that alone
            await asyncio.wait({supervising}, timeout=_LEAVE_S if self.last_heartbeat_at else 0)
            supervising.cancel()
            await asyncio.gather(supervising, registering, return_exceptions=True)

    async def _keep_registered(self, supervisor: Supervisor, calls: ControlPlaneClient) -> None:
        while True:
            await calls.needs_registration.wait()
            log.warning("the control plane no longer knows this worker: registering again")
            await retry_until_answered(supervisor.register)
            await asyncio.sleep(_AGAIN_S)

    async def _remove_leftovers(self) -> None:
        """Without a control plane nobody asks for what an earlier process left."""
        try:
            for run_id in await self._runtime.runs(self._owner):
                await self._runtime.release(run_id, self._owner)
        except RuntimeFailure as failure:
            log.warning("what an earlier process left stays: %s", failure)

    async def start(self, spec: StepSpec, files: bytes | None) -> AsyncGenerator[DirectRunRecord]:
        return await self._direct.start(spec, files)

    def direct_runs(self) -> frozenset[str]:
        """Of direct callers: not the control plane's."""
        return self._direct.runs()

    @property
    def running_jobs(self) -> int:
        claimed = len(self._supervisor.jobs) if self._supervisor else 0
        return claimed + self._direct.running

    @property
    def last_heartbeat_at(self) -> str:
        """When a heartbeat was answered last; empty before."""
        return self._connection.control_plane.last_heartbeat_at if self._connection else ""

    def cancel(self, job_id: str = "") -> bool:
        """That job, or every job; False when there is none."""
        told = self._direct.cancel(job_id)
        return (self._supervisor.cancel(job_id) if self._supervisor else False) or told

    async def cleanup(self, job_id: str) -> RemovedResources | None:
        """End the job and remove what its run has here, unless other jobs of the run need it.

        None: the job is unknown. Raises RuntimeFailure.
        """
        run_id = self._direct.run_of(job_id) or self._held_run(job_id)
        if not run_id:
            return None
        if self.cancel(job_id):
            await self._until_idle(job_id, within_s=STOP_S)
        if run_id in self._active_runs():
            return RemovedResources()
        return await self._runtime.release(run_id, self._owner)

    def _held_run(self, job_id: str) -> str:
        return self._connection.held.run_of(job_id) if self._connection else ""

    def _active_runs(self) -> frozenset[str]:
        held = self._connection.held.runs if self._connection else frozenset()
        return held | self._direct.active_runs()

    async def drain(self, within_s: float) -> None:
        """Take nothing more, let jobs end; after `within_s` cancel them."""
        if self._connection:
            self._connection.control_plane.stop_claims()
        if not await self._until_idle(within_s=within_s) and self.cancel():
            log.warning("jobs did not end within %g s: canceled", within_s)
            await self._until_idle(within_s=STOP_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self._leave()

    async def _leave(self) -> None:
        """Remove the environments of runs that are over; others wait for this worker's return."""
        if self._connection is None:
            await self._remove_leftovers()
            return
        try:
            runs = tuple(await self._runtime.runs(self._owner))
            beat = HeartbeatReport(
                running_jobs=self.running_jobs, runtime_available=True, runs=runs
            )
            for run_id in await self._connection.control_plane.heartbeat(beat):
                await self._runtime.release(run_id, self._owner)
        except (ControlPlaneError, RuntimeFailure) as error:
            log.warning("what runs left stays: %s", error)

    async def _until_idle(self, job_id: str = "", *, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                await self._direct.until_idle(job_id)
                if self._supervisor:
                    await self._supervisor.until_idle(job_id)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        if self._connection:
            await self._connection.control_plane.close()
        await self._direct.close()
        await self._runtime.close()


def facts(removed: RemovedResources) -> dict[str, Any]:
    return {
        "status": "cleaned",
        "removedContainers": removed.containers,
        "removedNetworks": removed.networks,
        "removedVolumes": removed.volumes,
    }
