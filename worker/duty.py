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
from worker.control_plane.calls import AgentCalls
from worker.control_plane.held_jobs import HeldJobs
from worker.control_plane.http import HttpControlPlane
from worker.direct import DirectRuns, Told
from worker.domain.control_plane import Beat, ControlPlaneError
from worker.domain.runtime import Removed, Runtime, RuntimeFailure
from worker.domain.step_spec import StepSpec
from worker.supervisor.patience import persistently
from worker.supervisor.supervisor import Options, Supervisor

log = logging.getLogger("partita.workers")
STOP_S: Final = 30.0  # for canceled jobs: SIGTERM, 10 s, SIGKILL, their last lines
_LEAVE_S: Final = 10.0
_AGAIN_S: Final = 1.0  # between two registrations: another worker may bear the same name


@dataclass(frozen=True, slots=True, kw_only=True)
class Employer:
    """The control plane and the ways to it; a worker may have none."""

    control_plane: HttpControlPlane
    calls: AgentCalls
    held: HeldJobs


class Duty:
    """`await run()` until canceled or `drain()`."""

    def __init__(self, runtime: Runtime, options: Options, employer: Employer | None) -> None:
        self._runtime = runtime
        self._owner = options.owner
        self._direct = DirectRuns(runtime, options)
        self._employer = employer
        self._supervisor = (
            Supervisor(employer.control_plane, runtime, options) if employer else None
        )

    async def run(self) -> None:
        """Raises Refused, InstallationChanged: as it is set up, it cannot work."""
        if self._supervisor is None or self._employer is None:
            await self._remove_leftovers()
            await asyncio.Event().wait()
            return
        supervising = asyncio.create_task(self._supervisor.run())
        registration = partial(self._keep_registered, self._supervisor, self._employer.calls)
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
            await asyncio.wait({supervising}, timeout=_LEAVE_S if self.heard_at else 0)
            supervising.cancel()
            await asyncio.gather(supervising, registering, return_exceptions=True)

    async def _keep_registered(self, supervisor: Supervisor, calls: AgentCalls) -> None:
        while True:
            await calls.needs_registration.wait()
            log.warning("the control plane no longer knows this worker: registering again")
            await persistently(supervisor.register)
            await asyncio.sleep(_AGAIN_S)

    async def _remove_leftovers(self) -> None:
        """Without a control plane nobody asks for what an earlier process left."""
        try:
            for run_id in await self._runtime.runs(self._owner):
                await self._runtime.release(run_id, self._owner)
        except RuntimeFailure as failure:
            log.warning("what an earlier process left stays: %s", failure)

    async def start(self, spec: StepSpec, files: bytes | None) -> AsyncGenerator[Told]:
        return await self._direct.start(spec, files)

    def private_runs(self) -> frozenset[str]:
        """Of direct callers: not the control plane's."""
        return self._direct.runs()

    @property
    def running_jobs(self) -> int:
        claimed = len(self._supervisor.jobs) if self._supervisor else 0
        return claimed + self._direct.running

    @property
    def heard_at(self) -> str:
        """When a heartbeat was answered last; empty before."""
        return self._employer.control_plane.heard_at if self._employer else ""

    def cancel(self, job_id: str = "") -> bool:
        """That job, or every job; False when there is none."""
        told = self._direct.cancel(job_id)
        return (self._supervisor.cancel(job_id) if self._supervisor else False) or told

    async def cleanup(self, job_id: str) -> Removed | None:
        """End the job and remove what its run has here, unless other jobs of the run need it.

        None: the job is unknown. Raises RuntimeFailure.
        """
        run_id = self._direct.run_of(job_id) or self._held_run(job_id)
        if not run_id:
            return None
        if self.cancel(job_id):
            await self._until_idle(job_id, within_s=STOP_S)
        if run_id in self._active_runs():
            return Removed()
        return await self._runtime.release(run_id, self._owner)

    def _held_run(self, job_id: str) -> str:
        return self._employer.held.run_of(job_id) if self._employer else ""

    def _active_runs(self) -> frozenset[str]:
        held = self._employer.held.runs if self._employer else frozenset()
        return held | self._direct.active_runs()

    async def drain(self, within_s: float) -> None:
        """Take nothing more, let jobs end; after `within_s` cancel them."""
        if self._employer:
            self._employer.control_plane.claim_no_more()
        if not await self._until_idle(within_s=within_s) and self.cancel():
            log.warning("jobs did not end within %g s: canceled", within_s)
            await self._until_idle(within_s=STOP_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self._leave()

    async def _leave(self) -> None:
        """Remove the environments of runs that are over; others wait for this worker's return."""
        if self._employer is None:
            await self._remove_leftovers()
            return
        try:
            runs = tuple(await self._runtime.runs(self._owner))
            beat = Beat(running_jobs=self.running_jobs, runtime_available=True, runs=runs)
            for run_id in await self._employer.control_plane.heartbeat(beat):
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
        if self._employer:
            await self._employer.control_plane.close()
        await self._direct.close()
        await self._runtime.close()


def facts(removed: Removed) -> dict[str, Any]:
    return {
        "status": "cleaned",
        "removedContainers": removed.containers,
        "removedNetworks": removed.networks,
        "removedVolumes": removed.volumes,
    }
