"""Containers that were started ahead and wait at their gate until their step may run.

One a step, under a name of its own (`…-ahead`), with all the labels that its unit needs: whoever
removes the resources of a run finds it. A start with the same launch renames it, records its
release on disk and opens the gate; anything else gets a container of its own. The record tells the
next process which of these containers have become units. (reference: control-plane 14.3, decision
0060)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from kernel import clock
from worker.domain import ownership
from worker.domain.runtime import Launch, RuntimeFailure, ShellUnavailable, Unit, UnitState
from worker.runtimes.docker import engine_http
from worker.runtimes.docker.containers import Containers, digest_files
from worker.runtimes.docker.engine import APIError
from worker.runtimes.docker.release_gate import (
    ReleaseGate,
    container_changes,
    gated_program,
    start_at_gate,
)
from worker.runtimes.docker.toolbox import Toolbox

log = logging.getLogger("partita.workers")
_KINDS: Final = ("task", "test")
_Key = tuple[str, str]  # run, step


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedContainer:
    """A container at its gate, and what its launch must be equal to."""

    unit_id: str
    gate: ReleaseGate
    configuration: tuple[object, ...]
    files: str


class Releases:
    """The times at which gates were opened, one small file each in the folder of the supervisor."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "released"

    def record(self, run_id: str, unit_id: str, at: datetime) -> None:
        """Record a release; the caller opens the gate afterwards."""
        path = self._path(run_id, unit_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f"{path.name}.new")
        scratch.write_text(clock.rfc3339(at), encoding="ascii")
        scratch.replace(path)

    def started_at(self, run_id: str, unit_id: str) -> datetime | None:
        """Return when a unit was released; None if it was not."""
        try:
            text = self._path(run_id, unit_id).read_text(encoding="ascii")
        except FileNotFoundError:
            return None
        return clock.parse_rfc3339(text)

    def unit_of(self, unit: Unit) -> Unit | None:
        """Return a unit that was started ahead as it is since its release; None before that.

        Other units are returned as they are.
        """
        if ownership.GATE not in unit.labels:
            return unit
        released_at = self.started_at(unit.labels[ownership.RUN_ID], unit.id)
        return replace(unit, started_at=released_at) if released_at else None

    def forget(self, run_id: str) -> None:
        for path in self._folder.glob(f"{run_id}.*"):
            path.unlink(missing_ok=True)

    def _path(self, run_id: str, unit_id: str) -> Path:
        return self._folder / f"{run_id}.{unit_id[:32]}"


class StartedAhead:
    """What this process has started ahead on one engine."""

    def __init__(self, containers: Containers, toolbox: Toolbox, releases: Releases) -> None:
        self._containers = containers
        self._toolbox = toolbox
        self._releases = releases
        self._started: dict[_Key, asyncio.Task[GatedContainer | None]] = {}
        self._kept_off: set[str] = set()  # runs that are being released
        self._unusable = False  # the helper image has no program for the gate

    async def start(self, launch: Launch) -> bool:
        """Start the container of a launch at its gate; return False if that is not to be done."""
        key = (launch.run_id, launch.step_id)
        if self._unusable or key in self._started or not self._may_start(launch):
            return False
        task = asyncio.create_task(self._start(launch), name=f"start {launch.name} ahead")
        self._started[key] = task
        try:
            waiting = await asyncio.shield(task)
        except BaseException:
            if task.done() and self._started.get(key) is task:
                del self._started[key]
            raise
        if waiting is None and self._started.get(key) is task:
            del self._started[key]
        return waiting is not None

    def _may_start(self, launch: Launch) -> bool:
        """Return whether nothing but the program would differ for others in the run."""
        return (
            launch.kind in _KINDS
            and not launch.ports
            and launch.run_id not in self._kept_off
            and self._containers.environment.has(launch)
        )

    async def _start(self, launch: Launch) -> GatedContainer | None:
        images = self._containers.images
        if not await images.is_present(launch.image):
            return None
        argv = gated_program(launch, images.last_configuration(launch.image))
        if argv is None:
            return None
        configuration = self._containers.configuration(launch)  # of the image as it is now
        labels = {**launch.labels, ownership.STARTED_AT: "", ownership.GATE: "true"}
        unit = await self._create(replace(launch, labels=labels), container_changes(argv))
        async with self._remove_on_error(unit):
            await self._containers.put_files(launch, unit.id)
            await self._toolbox.put(unit.id, launch.run_labels)
            address, files = self._containers.engine.address, await digest_files(launch)
            start = partial(self._containers.start, unit.id)
            return GatedContainer(
                unit_id=unit.id,
                gate=await start_at_gate(address, unit.id, start),
                configuration=configuration,
                files=files,
            )

    async def _create(self, launch: Launch, changes: Mapping[str, Any]) -> Unit:
        name = ownership.ahead_name(launch.run_id, launch.step_id)
        return await self._containers.create_anew(launch, name, changes)

    @asynccontextmanager
    async def _remove_on_error(self, unit: Unit) -> AsyncGenerator[None]:
        try:
            yield
        except BaseException as error:
            if isinstance(error, ShellUnavailable):
                self._unusable = True
                log.warning("no step is started ahead: STEP_INIT_IMAGE has no static busybox")
            with contextlib.suppress(RuntimeFailure):
                await asyncio.shield(self._containers.remove(unit.id))
            if not isinstance(error, engine_http.FAILURES):
                raise
            raise RuntimeFailure(f"the gate of {unit.name} cannot be reached") from error

    async def take(self, launch: Launch) -> GatedContainer | None:
        """Return the container that waits for a launch, under the name of its unit now.

        What waits for another launch of the step is removed, and one that is about to be started
        is waited for.
        """
        waiting = await self._take(launch.run_id, launch.step_id)
        if waiting is None or await self._is_for(waiting, launch):
            return waiting
        await self._remove(waiting)
        return None

    async def release(self, waiting: GatedContainer, launch: Launch) -> Unit | None:
        """Let the program run; None if that cannot be done, and the container is gone then."""
        now = clock.now()
        self._releases.record(launch.run_id, waiting.unit_id, now)
        try:
            await waiting.gate.release()
        except OSError as error:  # shut a moment ago: its program has not begun
            log.info("%s was started ahead and has ended: %s", launch.name, error)
            await self._remove(waiting)
            return None
        return Unit(
            id=waiting.unit_id,
            name=launch.name,
            state=UnitState.RUNNING,
            labels=launch.labels,
            started_at=now,
        )

    async def _is_for(self, waiting: GatedContainer, launch: Launch) -> bool:
        """Return whether a container is what the launch needs; it has the unit's name then."""
        return (
            not waiting.gate.is_shut
            and waiting.configuration == self._containers.configuration(launch)
            and waiting.files == await digest_files(launch)
            and await self._containers.rename(waiting.unit_id, launch.name)
            and not waiting.gate.is_shut
        )

    async def _take(self, run_id: str, step_id: str) -> GatedContainer | None:
        task = self._started.pop((run_id, step_id), None)
        if task is None:
            return None
        try:
            return await task
        except (RuntimeFailure, APIError) as error:
            log.info("%s of %s was not started ahead: %s", step_id, run_id, error)
            return None

    async def remove(self, run_id: str, step_id: str) -> None:
        """Remove what waits for a step."""
        if waiting := await self._take(run_id, step_id):
            await self._remove(waiting)

    async def _remove(self, waiting: GatedContainer) -> None:
        waiting.gate.close()
        await self._containers.remove(waiting.unit_id)

    @asynccontextmanager
    async def keep_off(self, run_id: str) -> AsyncGenerator[None]:
        """Start nothing of a run while the caller removes its containers, by label."""
        self._kept_off.add(run_id)
        try:
            for run, step in [key for key in self._started if key[0] == run_id]:
                if waiting := await self._take(run, step):
                    waiting.gate.close()
            yield
        finally:
            self._kept_off.discard(run_id)

    async def close(self) -> None:
        """Shut all gates: what waits at them ends."""
        tasks = list(self._started.values())
        self._started.clear()
        for task in tasks:
            if task.done() and not task.cancelled() and not task.exception():
                if waiting := task.result():
                    waiting.gate.close()
            else:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
