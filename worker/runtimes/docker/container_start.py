"""From a launch to a container that runs: created, filled with files, started; or made ahead.

A container that stands by was created for the next attempt of a step that somebody runs again. It
has the files and a name of its own (`…-standby`), and becomes the unit of that attempt by a rename.
One that was started ahead waits at its gate (decision 0060).
(reference: control-plane 14.3, decision 0059)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kernel import clock
from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Launch, RemovedResources, RuntimeFailure, Unit, UnitState
from worker.runtimes.docker import engine_http
from worker.runtimes.docker.containers import CONFLICT, Containers, digest_files
from worker.runtimes.docker.engine import APIError, RuntimeRefused
from worker.runtimes.docker.run_environment import filters
from worker.runtimes.docker.started_ahead import Releases, StartedAhead

log = logging.getLogger("partita.workers")
_REMOVE_WITHIN_S: Final = 5.0
_RUNS: Final = ("running", "restarting", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standby:
    """`files`: the digest of those that are in its directory, empty if they are still to come."""

    unit_id: str
    step_id: str
    configuration: tuple[object, ...]
    files: str


class ContainerStarter:
    """Starts the containers of one engine for one installation."""

    def __init__(
        self, containers: Containers, ahead: StartedAhead, releases: Releases, installation_id: str
    ) -> None:
        self._containers = containers
        self._ahead = ahead
        self._releases = releases
        self._installation_id = installation_id
        self._standbys: dict[str, _Standby] = {}  # by run: of the step that ran again last
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by run
        self._removals: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Leave what is still to be removed to the next attempt, or to the release of the run."""
        for task in self._removals:
            task.cancel()
        await asyncio.gather(*self._removals, return_exceptions=True)

    async def start(self, launch: Launch) -> Unit:
        """Start a container, or return the one that the same launch started.

        Nobody waits for the removal of earlier containers of the step that have ended: it takes
        place behind the end of the new one, or after some seconds.
        """
        await self._containers.environment.ensure(launch)
        waiting = await self._ahead.take(launch)
        try:
            earlier = [] if waiting and launch.attempt == 1 else await self._remove_running(launch)
            if waiting and (released := await self._ahead.release(waiting, launch)):
                self._remove_later([each["Id"] for each in earlier], behind=released.id)
                return released
        except BaseException:
            if waiting:
                waiting.gate.close()  # the next start replaces what ends by that
            raise
        used = ""
        try:
            unit, has_files = await self._unit_for(launch)
            used = unit.id
            if unit.state is UnitState.CREATED:
                if not has_files:
                    await self._containers.put_files(launch, unit.id)
                await self._containers.start(unit.id)
                unit = replace(unit, state=UnitState.RUNNING, started_at=clock.now())
            return unit
        finally:
            unused = [each["Id"] for each in earlier if each["Id"] != used]
            self._remove_later(unused, behind=used)

    async def _remove_running(self, launch: Launch) -> Sequence[Mapping[str, Any]]:
        """Remove earlier containers of the step that run: they have the same names in the network.

        Return what is left of earlier attempts, and of what was made ahead.
        """
        earlier = await self._earlier(launch)
        for each in earlier:
            if each["State"] in _RUNS:
                await self._containers.remove(each["Id"])
        return [each for each in earlier if each["State"] not in _RUNS]

    async def _earlier(self, launch: Launch) -> Sequence[Mapping[str, Any]]:
        """Return what the engine lists of the step's earlier attempts, and what stands by."""
        owner = UnitOwner(installation_id=self._installation_id, orchestrator_id="", host_id="")
        wanted = filters(owner, **{ownership.RUN_ID: launch.run_id, ownership.STEP: launch.step_id})
        found = await self._containers.engine.call(
            lambda client: client.containers(all=True, filters=wanted)
        )
        return [
            each
            for each in found
            if int(each["Labels"].get(ownership.ATTEMPT, 0)) < launch.attempt or stands_by(each)
        ]

    async def _unit_for(self, launch: Launch) -> tuple[Unit, bool]:
        """Return the container of a launch, and whether it has its files."""
        if standby := await self._take_standby(launch):
            unit = Unit(
                id=standby.unit_id,
                name=launch.name,
                state=UnitState.CREATED,
                labels=launch.labels,
            )
            return unit, bool(standby.files)
        try:
            return await self._containers.create(launch, launch.name), False
        except APIError as error:
            if error.status_code != CONFLICT:
                raise
            found = await self._containers.inspect(launch.name)
            if not ownership.is_owned(found.labels, self._installation_id):
                raise RuntimeRefused(
                    f"a container {launch.name} of another owner exists"
                ) from error
        if started := self._releases.unit_of(found):
            return started, False
        await self._containers.remove(found.id)  # its runner ended before it opened the gate
        return await self._containers.create(launch, launch.name), False

    def _remove_later(self, unit_ids: Collection[str], *, behind: str = "") -> None:
        """Remove containers while nobody waits, after the end of another one if that comes soon."""
        if unit_ids:
            removal = self._remove_all(unit_ids, behind)
            task = asyncio.create_task(removal, name="remove earlier containers")
            self._removals.add(task)
            task.add_done_callback(self._removals.discard)

    async def _remove_all(self, unit_ids: Collection[str], behind: str) -> None:
        if behind:
            with contextlib.suppress(*engine_http.FAILURES):
                async with asyncio.timeout(_REMOVE_WITHIN_S):
                    await engine_http.wait_for_end(self._containers.engine.address, behind)
        for unit_id in unit_ids:
            try:
                await self._containers.remove(unit_id)
            except RuntimeFailure as failure:
                log.warning("%s goes with its run: %s", unit_id[:12], failure)

    async def stand_by(self, launch: Launch) -> None:
        """Create the container of a launch ahead, with its files unless it has other ones.

        Other files are as a rule other ones the next time. The run has one container that stands
        by; nothing happens once the run is released. Raises APIError, RuntimeFailure.
        """
        async with self._locks[launch.run_id]:
            if not self._containers.environment.has(launch):
                return
            if before := self._standbys.pop(launch.run_id, None):
                await self._containers.remove(before.unit_id)
            await self._containers.images.is_present(launch.image)
            configuration = self._containers.configuration(launch)
            unit = await self._create_standby(launch)
            files = ""
            try:
                if launch.step_files is None:
                    await self._containers.put_files(launch, unit.id)
                    files = await digest_files(launch)
            except BaseException:
                self._remove_later([unit.id])
                raise
            self._standbys[launch.run_id] = _Standby(
                unit_id=unit.id,
                step_id=launch.step_id,
                configuration=configuration,
                files=files,
            )

    async def _create_standby(self, launch: Launch) -> Unit:
        launch = replace(launch, labels={**launch.labels, ownership.STARTED_AT: ""})
        name = ownership.standby_name(launch.run_id, launch.step_id)
        return await self._containers.create_anew(launch, name)

    async def _take_standby(self, launch: Launch) -> _Standby | None:
        """Return the container that stands by for this launch, under its name now."""
        lock = self._locks.get(launch.run_id)
        if lock is None:
            return None
        async with lock:
            standby = self._standbys.get(launch.run_id)
            if standby is None or standby.step_id != launch.step_id:
                return None
            del self._standbys[launch.run_id]
        is_same = standby.configuration == self._containers.configuration(launch)
        has_right_files = standby.files in ("", await digest_files(launch))
        if (
            is_same
            and has_right_files
            and await self._containers.rename(standby.unit_id, launch.name)
        ):
            return standby
        return None

    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        """Remove everything of a run; what is about to be made ahead for it goes, too."""
        async with self._locks[run_id]:
            self._standbys.pop(run_id, None)
            async with self._ahead.keep_off(run_id):
                removed = await self._containers.environment.release(run_id, owner)
        self._releases.forget(run_id)
        self._locks.pop(run_id, None)
        return removed


def stands_by(listed: Mapping[str, Any]) -> bool:
    """Return whether a container, as the engine lists it, has not become a unit yet."""
    return any(ownership.is_name_before_start(name) for name in listed["Names"] or ())
