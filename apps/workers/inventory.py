"""The runner's part in environments: it looks at its runtimes while somebody watches, and sweeps.

(reference: control-plane 17)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from apps.agents.api import list_agents
from apps.environments import api as environments
from apps.operations.api import installation_id
from apps.streams.api import on_store_thread
from apps.workers.store_loops import pause, survive_store, wakes
from apps.workers.supervisor_setup import SupervisorSetup
from kernel import clock, ids
from kernel.agent_protocol import RuntimeResource
from kernel.background import keep_running, one_cycle
from worker import host
from worker.domain import ownership
from worker.domain.runtime import Runtime, RuntimeFailure

log = logging.getLogger("partita.workers")
POLL_S: Final = 2.0  # a wish that no nudge told is seen by then
LOOK_WITHIN_S: Final = 8.0
CALL_WITHIN_S: Final = 30.0
RENEW_EVERY_S: Final = 5.0
_NAME: Final = "the inventory of environments"
_ROUNDS: Final = 2  # the second one is for what appeared meanwhile


class LostPart(Exception):
    """Another runner has taken the part: this one was absent for longer than its lease."""


@dataclass(frozen=True, slots=True)
class ReachedRuntime:
    """A runtime and the id of the supervisor that reaches it."""

    agent_id: str
    runtime: Runtime


class InventoryLoops:
    """Two background loops: looks and sweeps. `setups` returns the current supervisors."""

    def __init__(self, setups: Callable[[], Iterable[SupervisorSetup]]) -> None:
        self._setups = setups
        self._holder = str(ids.new_uuid())  # new at each start, as an incarnation

    async def keep_looking(self) -> None:
        """Look when it is due, until canceled, as a background loop."""
        await keep_running("environment-looks", self._look_when_due, longest_pause_s=POLL_S)

    async def keep_sweeping(self) -> None:
        """Go on with reaps, until canceled, as a background loop."""
        await keep_running("environment-sweeps", self._sweep_when_due, longest_pause_s=POLL_S)

    async def _look_when_due(self) -> None:
        with wakes(environments.LOOK_NUDGE) as woken:
            while True:
                with one_cycle():
                    await survive_store(self.look_if_due, _NAME)
                await pause(woken, POLL_S)

    async def _sweep_when_due(self) -> None:
        with wakes(environments.LOOK_NUDGE) as woken:
            while True:
                with one_cycle():
                    await survive_store(self.sweep_if_due, _NAME)
                await pause(woken, POLL_S)

    def _engines(self) -> dict[str, ReachedRuntime]:
        return {
            each.agent_id: ReachedRuntime(each.agent_id, each.runtime) for each in self._setups()
        }

    async def look_if_due(self) -> None:
        """Look at the engines that somebody wants to know of; at all of them at once."""
        engines = self._engines()
        due = await on_store_thread(environments.due_looks, tuple(engines))
        if not due:
            return
        gone = await on_store_thread(find_gone_supervisors)
        looks = [look_at(engines[agent_id], gone) for agent_id in sorted(due)]
        for look in await asyncio.gather(*looks):
            await on_store_thread(environments.record_look, look)
        await on_store_thread(environments.reap_zombies_if_set)

    async def sweep_if_due(self) -> None:
        """Go on with what is marked and can be reached from here, and with abandoned reaps."""
        if not await on_store_thread(environments.has_open_reaps):
            return
        await on_store_thread(environments.continue_reaps)
        for agent_id, engine in self._engines().items():
            while part := await on_store_thread(environments.take_part, agent_id, self._holder):
                try:
                    await Sweep(part, engine, self._holder).run()
                except LostPart:
                    log.warning("%s: another runner has taken its part of a reap", agent_id)


def find_gone_supervisors() -> frozenset[str]:
    """Return the incarnations registered on this host that no process of it is any more."""
    here = host.host_id()
    return frozenset(
        agent.incarnation
        for agent in list_agents()
        if agent.host_id == here
        and agent.pid is not None
        and not host.is_process(agent.pid, agent.process_started_at)
    )


async def look_at(engine: ReachedRuntime, gone: frozenset[str]) -> environments.RuntimeLook:
    """List what the engine has, within 8 s; one that does not answer is not available."""
    looked_at = clock.now()
    try:
        async with asyncio.timeout(LOOK_WITHIN_S):
            resources = tuple(await engine.runtime.list_resources())
    except (RuntimeFailure, TimeoutError) as error:
        log.warning("%s: its runtime cannot be listed: %s", engine.agent_id, error)
        resources, available = (), False
    else:
        available = True
    return environments.RuntimeLook(
        agent_id=engine.agent_id,
        host_id=host.host_id(),
        looked_at=looked_at,
        available=available,
        resources=resources,
        gone=gone,
    )


class Sweep:
    """Removes what one part marks: each resource is looked at again before.

    What differs from the mark stays. A resource that another has removed meanwhile counts as gone.
    """

    def __init__(self, part: environments.SweepPart, engine: ReachedRuntime, holder: str) -> None:
        self._part = part
        self._engine = engine
        self._holder = holder
        self._progress = environments.SweepProgress()
        self._renewed_at = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Remove containers, networks and volumes, then once more what appeared meanwhile.

        Raise LostPart.
        """
        marked = [each.resource for each in self._part.resources]
        for number in range(_ROUNDS):
            if number:
                marked = await self._find_new(marked)
            await self._remove(marked)
        await on_store_thread(environments.end_part, self._part.id, self._holder, self._progress)

    async def _remove(self, marked: Iterable[RuntimeResource]) -> None:
        for resource in sorted(
            marked, key=lambda each: environments.RESOURCE_KINDS.index(each.kind)
        ):
            name = f"{resource.kind} {resource.name}"
            try:
                async with asyncio.timeout(CALL_WITHIN_S):
                    await self._remove_one(resource, name)
            except (RuntimeFailure, TimeoutError) as error:
                reason = str(error) or f"no answer within {CALL_WITHIN_S:g} s"
                self._progress.warn(f"{name} could not be removed: {reason}"[:500])
            await self._report()

    async def _remove_one(self, resource: RuntimeResource, name: str) -> None:
        """Look again, ask the store about the run, and remove: in this order, without a pause."""
        runtime, run_id = self._engine.runtime, environments.run_id_of(resource)
        now = await runtime.look_at(resource)
        if now is not None and not resource.is_same(now):
            self._progress.warn(f"{name} is another one now: it stays")
        elif now is None:
            self._progress.gone.add((resource.kind, resource.id))
        elif not await on_store_thread(environments.is_sweepable, self._part, run_id):
            self._progress.warn(f"{run_id} is no longer a zombie: nothing more of it is removed")
        elif await runtime.remove_resource(resource):
            self._progress.gone.add((resource.kind, resource.id))
        else:
            self._progress.warn(f"{name} could not be removed")

    async def _find_new(self, marked: Iterable[RuntimeResource]) -> list[RuntimeResource]:
        """Return the resources of the marked runs that were not marked."""
        known = {(each.kind, each.id, each.created_at) for each in marked}
        try:
            async with asyncio.timeout(LOOK_WITHIN_S):
                listed = await self._engine.runtime.list_resources()
        except (RuntimeFailure, TimeoutError) as error:
            self._progress.warn(f"what appeared meanwhile is unknown: {error}"[:500])
            return []
        return [
            each
            for each in listed
            if ownership.is_owned(each.labels, installation_id())
            and environments.run_id_of(each) in self._part.run_ids
            and (each.kind, each.id, each.created_at) not in known
        ]

    async def _report(self) -> None:
        """Say how far the sweep is and renew its lease, every 5 s; raise LostPart."""
        now = asyncio.get_running_loop().time()
        if now - self._renewed_at < RENEW_EVERY_S:
            return
        self._renewed_at = now
        renewed = await on_store_thread(
            environments.report_progress, self._part.id, self._holder, self._progress
        )
        if not renewed:
            raise LostPart
