"""The worker's service for one installation: claimed jobs, direct runs and their removal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from typing import Final

from kernel.background import keep_running
from worker.control_plane.client import ControlPlaneClient
from worker.control_plane.held_jobs import HeldJobs
from worker.control_plane.http import HttpControlPlane
from worker.direct_runs import DirectRunRecord, DirectRuns
from worker.domain.control_plane import ControlPlaneError, HeartbeatReport
from worker.domain.runtime import RemovedResources, Runtime, RuntimeFailure
from worker.domain.step_spec import StepSpec
from worker.supervisor.attempt import SupervisorOptions
from worker.supervisor.supervisor import Supervisor
from worker.supervisor.waits import retry_until_answered

log = logging.getLogger("partita.workers")
STOP_S: Final = 30.0  # for canceled jobs: SIGTERM, 10 s, SIGKILL, their last lines
_LEAVE_S: Final = 10.0
_AGAIN_S: Final = 1.0  # between two registrations: another worker may bear the same name


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneConnection:
    """The control plane, its HTTP client and the jobs held for it; a worker may have none."""

    control_plane: HttpControlPlane
    client: ControlPlaneClient
    held: HeldJobs


class WorkerService:
    """Runs until it is canceled or `drain()` is called."""

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
        """Run claims and registrations. Raises RequestRefused, InstallationChanged."""
        if self._supervisor is None or self._connection is None:
            await self._remove_leftovers()
            await asyncio.Event().wait()
            return
        supervising = asyncio.create_task(self._supervisor.run())
        registration = partial(self._keep_registered, self._supervisor, self._connection.client)
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
            self._supervisor.stop()
            await asyncio.wait({supervising}, timeout=_LEAVE_S if self.last_heartbeat_at else 0)
            supervising.cancel()
            await asyncio.gather(supervising, registering, return_exceptions=True)

    async def _keep_registered(self, supervisor: Supervisor, client: ControlPlaneClient) -> None:
        while True:
            await client.needs_registration.wait()
            log.warning("the control plane no longer knows this worker: registering again")
            await retry_until_answered(supervisor.register)
            await asyncio.sleep(_AGAIN_S)

    async def _remove_leftovers(self) -> None:
        """Remove the units of an earlier process; without a control plane nothing else does."""
        try:
            for run_id in await self._runtime.runs(self._owner):
                await self._runtime.release(run_id, self._owner)
        except RuntimeFailure as failure:
            log.warning("units of an earlier process are not removed: %s", failure)

    async def start(self, spec: StepSpec, files: bytes | None) -> AsyncGenerator[DirectRunRecord]:
        return await self._direct.start(spec, files)

    def direct_runs(self) -> frozenset[str]:
        """Return the runs of direct callers, which the control plane does not know."""
        return self._direct.runs()

    @property
    def running_jobs(self) -> int:
        claimed = len(self._supervisor.jobs) if self._supervisor else 0
        return claimed + self._direct.running

    @property
    def last_heartbeat_at(self) -> str:
        """Return the time of the last answered heartbeat (RFC 3339); empty before the first."""
        return self._connection.control_plane.last_heartbeat_at if self._connection else ""

    def cancel(self, job_id: str = "") -> bool:
        """Cancel that job, or all jobs; return False if there is none."""
        canceled = self._direct.cancel(job_id)
        return bool(self._supervisor and self._supervisor.cancel(job_id)) or canceled

    async def cleanup(self, job_id: str) -> RemovedResources | None:
        """End the job and release its run here, unless other jobs of the run are active.

        Return None for an unknown job. Raises RuntimeFailure.
        """
        held = self._connection.held if self._connection else None
        run_id = self._direct.run_of(job_id) or (held.run_of(job_id) if held else "")
        if not run_id:
            return None
        if self.cancel(job_id):
            await self._until_idle(job_id, within_s=STOP_S)
        if run_id in self._direct.active_runs() or (held and run_id in held.runs):
            return RemovedResources()
        return await self._runtime.release(run_id, self._owner)

    async def drain(self, within_s: float) -> None:
        """Claim no more jobs and let the running ones end; cancel them after `within_s`."""
        if self._connection:
            self._connection.control_plane.stop_claims()
        if not await self._until_idle(within_s=within_s) and self.cancel():
            log.warning("jobs did not end within %g s: canceled", within_s)
            await self._until_idle(within_s=STOP_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self._leave()

    async def _leave(self) -> None:
        """Remove what ended runs have here; other runs stay until this worker returns."""
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
            log.warning("resources of runs are not removed: %s", error)

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


def facts(removed: RemovedResources) -> dict[str, str | int]:
    return {
        "status": "cleaned",
        "removedContainers": removed.containers,
        "removedNetworks": removed.networks,
        "removedVolumes": removed.volumes,
    }
