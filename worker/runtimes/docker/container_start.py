"""From a launch to a container that runs: created, filled with files, started; or created ahead.

A container that stands by was created for the next attempt of a step that somebody runs again. It
has the files and a name of its own (`…-standby`), and becomes the unit of that attempt by a rename.
(reference: control-plane 14.3, decision 0059)
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kernel import clock
from worker.domain import ownership
from worker.domain.archives import step_archive
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import (
    Launch,
    RemovedResources,
    RuntimeFailure,
    StartFailed,
    Unit,
    UnitState,
)
from worker.domain.suite_files import KeptArchives
from worker.runtimes.docker import engine_http
from worker.runtimes.docker.container_spec import container
from worker.runtimes.docker.engine import (
    APIError,
    Engine,
    RuntimeRefused,
    explanation,
    inspected,
    unit_of,
)
from worker.runtimes.docker.images import Images
from worker.runtimes.docker.run_environment import RunEnvironment, filters

log = logging.getLogger("partita.workers")
_CONFLICT: Final = 409
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
    """Starts the containers of one engine. `publishes`: their ports, on loopback."""

    def __init__(
        self,
        engine: Engine,
        images: Images,
        environment: RunEnvironment,
        installation_id: str,
        *,
        publishes: bool,
    ) -> None:
        self._engine = engine
        self._images = images
        self._environment = environment
        self._installation_id = installation_id
        self._publishes = publishes
        self._archives = KeptArchives()
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
        await self._environment.ensure(launch)
        earlier = await self._earlier(launch) if launch.attempt > 1 else []
        for each in earlier:
            if each["State"] in _RUNS:
                await self.remove(each["Id"])
        used = ""
        try:
            unit, has_files = await self._unit_for(launch)
            used = unit.id
            if unit.state is UnitState.CREATED:
                if not has_files:
                    await self._put_files(launch, unit.id)
                await self._start(unit.id)
                unit = replace(unit, state=UnitState.RUNNING, started_at=clock.now())
            return unit
        finally:
            unused = [each["Id"] for each in earlier if each["Id"] != used]
            self._remove_later(unused, behind=used)

    async def _earlier(self, launch: Launch) -> Sequence[Mapping[str, Any]]:
        """Return what the engine lists of the step's earlier attempts, and what stands by."""
        owner = UnitOwner(installation_id=self._installation_id, orchestrator_id="", host_id="")
        wanted = filters(owner, **{ownership.RUN_ID: launch.run_id, ownership.STEP: launch.step_id})
        found = await self._engine.call(lambda client: client.containers(all=True, filters=wanted))
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
            return await self._create(launch, launch.name), False
        except APIError as error:
            if error.status_code != _CONFLICT:
                raise
            found = unit_of(await self._engine.call(inspected(launch.name)))
            if not ownership.is_owned(found.labels, self._installation_id):
                raise RuntimeRefused(
                    f"a container {launch.name} of another owner exists"
                ) from error
            return found, False

    async def _create(self, launch: Launch, name: str) -> Unit:
        """Create the container of a launch under a name. Raises APIError."""
        directory = await self._images.working_directory(launch.image)

        def create(client: Any) -> Any:
            options = container(
                launch, client, publishes=self._publishes, image_directory=directory
            )
            return client.create_container(**options | {"name": name})

        created = await self._engine.call(create)
        return Unit(id=str(created["Id"]), name=name, state=UnitState.CREATED, labels=launch.labels)

    async def _put_files(self, launch: Launch, unit_id: str) -> None:
        """Put the files into a created container, and connect it to further networks."""
        content = await launch.workspace.fetch()
        own = content if launch.step_files is None else launch.step_files
        async with self._environment.fill_once(launch, content) as is_needed:

            def put(
                client: Any,
            ) -> None:  # builds on the thread of the engine's call: it may be long
                if is_needed:
                    archive = step_archive(own, shared=content)
                else:
                    archive = self._archives.get_or_build(own, step_archive)
                client.put_archive(unit_id, "/", archive)

            await self._engine.call(put)
        for network, aliases in list(launch.networks.items())[1:]:
            await self._connect(unit_id, network, aliases)

    async def _connect(self, unit_id: str, network: str, aliases: Sequence[str]) -> None:
        try:
            await self._engine.call(
                lambda client: client.connect_container_to_network(
                    unit_id, network, aliases=list(aliases)
                )
            )
        except APIError as error:
            if "already exists" not in explanation(error):  # of a start that was interrupted
                raise

    async def _start(self, unit_id: str) -> None:
        try:
            await self._engine.call(lambda client: client.start(unit_id))
        except APIError as error:
            text = explanation(error)
            if "OCI runtime create failed" in text or "failed to create task" in text:
                raise StartFailed(text, 126 if "permission denied" in text else 127) from error
            raise

    async def remove(self, unit_id: str) -> None:
        try:
            await self._engine.call(
                lambda client: client.remove_container(unit_id, v=True, force=True)
            )
        except APIError as error:
            if error.status_code not in (404, _CONFLICT):  # gone, or already being removed
                raise RuntimeRefused(explanation(error)) from error

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
                    await engine_http.wait_for_end(self._engine.address, behind)
        for unit_id in unit_ids:
            try:
                await self.remove(unit_id)
            except RuntimeFailure as failure:
                log.warning("%s goes with its run: %s", unit_id[:12], failure)

    async def stand_by(self, launch: Launch) -> None:
        """Create the container of a launch ahead, with its files unless it has other ones.

        Other files are as a rule other ones the next time. The run has one container that stands
        by; nothing happens once the run is released. Raises APIError, RuntimeFailure.
        """
        async with self._locks[launch.run_id]:
            if not self._environment.has(launch):
                return
            if before := self._standbys.pop(launch.run_id, None):
                await self.remove(before.unit_id)
            await self._images.is_present(launch.image)
            configuration = self._configuration(launch)
            unit = await self._create_standby(launch)
            files = ""
            try:
                if launch.step_files is None:
                    await self._put_files(launch, unit.id)
                    files = await _files_digest(launch)
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
        try:
            return await self._create(launch, name)
        except APIError as error:
            if error.status_code != _CONFLICT:
                raise
        found = unit_of(await self._engine.call(inspected(name)))  # of an earlier process
        if ownership.is_owned(found.labels, self._installation_id):
            await self.remove(found.id)
        return await self._create(launch, name)

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
        is_same = standby.configuration == self._configuration(launch)
        has_right_files = standby.files in ("", await _files_digest(launch))
        if is_same and has_right_files and await self._rename(standby.unit_id, launch.name):
            return standby
        return None

    async def _rename(self, unit_id: str, name: str) -> bool:
        """Return False if that cannot be done: somebody removed it, or the name is taken."""
        try:
            await self._engine.call(lambda client: client.rename(unit_id, name))
        except APIError as error:
            log.info("%s does not stand by any more: %s", unit_id[:12], explanation(error))
            return False
        return True

    def _configuration(self, launch: Launch) -> tuple[object, ...]:
        """Return everything that the container of a launch is created with."""
        return (
            launch.attempt,
            self._images.identity(launch.image),
            launch.program,
            dict(launch.environment),
            launch.workspace.name,
            dict(launch.networks),
            launch.ports,
            launch.limits,
            dict(launch.run_labels),
        )

    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        """Remove everything of a run; what is about to stand by for it goes, too."""
        async with self._locks[run_id]:
            self._standbys.pop(run_id, None)
            removed = await self._environment.release(run_id, owner)
        self._locks.pop(run_id, None)
        return removed


def stands_by(listed: Mapping[str, Any]) -> bool:
    """Return whether a container, as the engine lists it, has not become a unit yet."""
    return any(ownership.is_standby_name(name) for name in listed["Names"] or ())


async def _files_digest(launch: Launch) -> str:
    own = launch.step_files
    content = await launch.workspace.fetch() if own is None else own
    return await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())
