"""Heartbeats, and the removal of the runs that their answers release.

(reference: control-plane 15.2, environment)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from kernel import background
from worker.domain.control_plane import (
    FAILING_LOOPS,
    LOOP_CHARACTERS,
    ControlPlane,
    ControlPlaneError,
    HeartbeatReport,
    Unregistered,
)
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Runtime, RuntimeFailure
from worker.supervisor.waits import retry_until_answered

log = logging.getLogger("partita.workers")
_RUN_END_DELAY_S: Final = 0.5  # after the last step of a run here, until the run is over
RUNTIME_S: Final = 8.0  # for the runtime to list its runs; a supervisor without heartbeat is lost
Facts = Callable[[], tuple[int, frozenset[str]]]


class SupervisorHeartbeat:
    """Sends a heartbeat every `interval_s`, and soon after the last step of a run has ended."""

    def __init__(
        self,
        control_plane: ControlPlane,
        runtime: Runtime,
        owner: UnitOwner,
        *,
        register: Callable[[], Awaitable[None]],
    ) -> None:
        self._control_plane = control_plane
        self._runtime = runtime
        self._owner = owner
        self._register = register
        self._ended: set[str] = set()
        self._soon = asyncio.Event()
        self._releasing: dict[str, asyncio.Task[None]] = {}
        self.interval_s = 10.0

    def note_step_end(self, run_id: str) -> None:
        self._ended.add(run_id)
        self._soon.set()

    async def run(self, facts: Facts) -> None:
        """Run until canceled; `facts()`: how many jobs run, and the runs that they belong to."""
        try:
            while True:
                with background.one_cycle():
                    await self._beat(facts)
                await self._pause(facts)
        finally:
            for task in self._releasing.values():
                task.cancel()

    async def _pause(self, facts: Facts) -> None:
        try:
            async with asyncio.timeout(self.interval_s):
                while True:
                    await self._soon.wait()
                    self._soon.clear()
                    await asyncio.sleep(_RUN_END_DELAY_S)
                    ended, self._ended = self._ended, set()
                    if ended - facts()[1]:
                        return
        except TimeoutError:
            return

    async def _beat(self, facts: Facts) -> None:
        running, active = facts()
        available, runs = await self._runtime_state()
        beat = HeartbeatReport(
            running_jobs=running,
            runtime_available=available,
            runs=tuple(sorted(runs | active)),
            failing_loops=tuple(
                name[:LOOP_CHARACTERS] for name in background.in_trouble()[:FAILING_LOOPS]
            ),
        )
        try:
            released = await self._control_plane.heartbeat(beat)
        except Unregistered:
            await retry_until_answered(self._register)
            return
        except ControlPlaneError as error:
            log.warning("heartbeat failed: %s", error)
            background.report_error(optional=True)
            return
        for run_id in released:
            if run_id not in active and run_id not in self._releasing:
                self._releasing[run_id] = asyncio.create_task(self._release(run_id))

    async def _runtime_state(self) -> tuple[bool, frozenset[str]]:
        if not await self._runtime.ping():
            return False, frozenset()
        try:
            async with asyncio.timeout(RUNTIME_S):
                return True, await self._runtime.runs(self._owner)
        except TimeoutError:
            log.warning("the runtime has not listed its runs within %g s", RUNTIME_S)
        except RuntimeFailure as failure:
            log.warning("the runtime cannot list its runs: %s", failure)
        return False, frozenset()

    async def _release(self, run_id: str) -> None:
        try:
            removed = await self._runtime.release(run_id, self._owner)
        except RuntimeFailure as failure:
            log.warning("teardown of %s failed: %s", run_id, failure)
        else:
            for leftover in removed.leftovers:
                log.warning("teardown of %s left something behind: %s", run_id, leftover)
        finally:
            del self._releasing[run_id]
