"""The runner's part in shells: it takes sessions of its supervisors and opens them.

(reference: control-plane 11.7)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from apps.operations.api import installation_id
from apps.shells import api as shells
from apps.streams.api import has_nudges_of_others, on_store_thread
from apps.workers.inventory import ReachedRuntime
from apps.workers.served_shell import ServedShell
from apps.workers.store_loops import pause, survive_store, wakes
from apps.workers.supervisor_setup import SupervisorSetup
from kernel import ids
from kernel.background import keep_running, one_cycle, report_error
from worker import host
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import RuntimeFailure

log = logging.getLogger("partita.workers")
POLL_S: Final = 0.5  # a session that no nudge told is seen by then
NUDGED_POLL_S: Final = 2.0  # the same where nudges of other processes arrive
TIDY_EVERY_S: Final = 10.0
TIDY_RUNS_EVERY_S: Final = 600.0
END_WITHIN_S: Final = 30.0


class ShellLoop:
    """A background loop; `setups` returns the current supervisors."""

    def __init__(self, setups: Callable[[], Iterable[SupervisorSetup]]) -> None:
        self._setups = setups
        self._holder = str(ids.new_uuid())  # new at each start, as an incarnation
        self._tasks: set[asyncio.Task[None]] = set()
        self._recovered: set[str] = set()  # supervisors without shells of earlier processes
        self._tidy_at = self._tidy_runs_at = 0.0

    async def keep_serving(self) -> None:
        """Open sessions until canceled, as a background loop; end them then."""
        try:
            await keep_running("shells", self._serve, longest_pause_s=NUDGED_POLL_S)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self) -> None:
        poll_s = NUDGED_POLL_S if has_nudges_of_others() else POLL_S
        with wakes(shells.SHELL_NUDGE) as woken:
            while True:
                with one_cycle():
                    await survive_store(self.serve_new, "shells")
                await pause(woken, poll_s)

    async def serve_new(self) -> None:
        """Take the sessions that wait and serve each on its own; tidy up now and then."""
        engines = {
            each.agent_id: ReachedRuntime(each.agent_id, each.runtime) for each in self._setups()
        }
        for agent_id in engines.keys() - self._recovered:
            await self._recover(engines[agent_id])
        ready = tuple(engines.keys() & self._recovered)
        for held in await on_store_thread(shells.take_sessions, ready, self._holder):
            runtime = engines[held.agent_id].runtime
            owner = await on_store_thread(owner_of, held.agent_id)
            served = ServedShell(held, runtime, owner, self._holder)
            task = asyncio.create_task(served.run(), name=f"shell {held.pk}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await self._tidy()

    async def _recover(self, engine: ReachedRuntime) -> None:
        """End what an earlier process of this supervisor had open: rows first, then programs.

        Until the runtime answers, sessions of the supervisor wait.
        """
        for pk in await on_store_thread(shells.end_earlier, engine.agent_id, self._holder):
            log.info("shell %s: its runner restarted", pk)
        if not engine.runtime.opens_shells:
            self._recovered.add(engine.agent_id)
            return
        owner = await on_store_thread(owner_of, engine.agent_id)
        try:
            async with asyncio.timeout(END_WITHIN_S):
                await engine.runtime.end_shells(owner)
        except (RuntimeFailure, TimeoutError) as error:
            log.warning("%s: shells of an earlier process may be left: %s", engine.agent_id, error)
            report_error()
            return
        self._recovered.add(engine.agent_id)

    async def _tidy(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._tidy_at:
            return
        self._tidy_at = now + TIDY_EVERY_S
        await on_store_thread(shells.end_abandoned)
        await on_store_thread(shells.remove_old_sessions)
        if now >= self._tidy_runs_at:
            self._tidy_runs_at = now + TIDY_RUNS_EVERY_S
            await on_store_thread(shells.remove_sessions_of_deleted_runs)


def owner_of(agent_id: str) -> UnitOwner:
    """Return whose units the supervisor has; call it on a thread, it reads the store."""
    return UnitOwner(
        installation_id=installation_id(), orchestrator_id=agent_id, host_id=host.host_id()
    )
