"""The runner: the supervisors next to the store, for all backends without workers."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from django.db import DatabaseError

from apps.agents.api import Registration
from apps.executions.api import SupervisorSession
from apps.operations.api import installation_id
from apps.streams.api import DatastoreUnavailable, on_store_thread, release_stale_connection
from apps.suites.api import container_kinds
from apps.workers import conf
from apps.workers.control_plane.in_process import InProcessControlPlane
from apps.workers.inventory import InventoryLoops
from apps.workers.repeats import RepeatingSupervisor, RepeatLoop
from apps.workers.shells import ShellLoop
from apps.workers.supervisor_setup import (
    SupervisorSetup,
    SupervisorSpec,
    set_up_supervisor,
    set_up_supervisors,
    supervisor_specs,
)
from kernel import ids
from kernel.background import BackgroundThread, keep_running, one_cycle, report_error
from worker import host
from worker.domain.control_plane import ControlPlaneUnavailable
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import RuntimeFailure
from worker.supervisor import event_loop
from worker.supervisor.attempt import SupervisorOptions
from worker.supervisor.supervisor import Supervisor

log = logging.getLogger("partita.workers")
POLL_INTERVAL_S: Final = 2.0  # between two reads of the settings
_OBJECTS: Final = 20_000


class RunnerInUse(RuntimeError):
    """Another runner uses the data folder: two would adopt each other's steps."""


@dataclass(slots=True)
class _RunningSupervisor:
    """A running supervisor. `draining`: its backend is gone, and its last steps end."""

    setup: SupervisorSetup
    control_plane: InProcessControlPlane
    supervisor: Supervisor
    task: asyncio.Task[None]
    draining: bool = False


class Runner:
    """Runs a supervisor for each engine; the units are left to the next runner at its end.

    Create it outside an event loop, because it reads the store. Backends that are added, changed or
    removed take effect within POLL_INTERVAL_S and the time that their last steps need.
    """

    def __init__(self, runtime_name: str) -> None:
        self._runtime_name = runtime_name
        self._first = [(setup, _control_plane(setup)) for setup in set_up_supervisors(runtime_name)]
        self._running: dict[str, _RunningSupervisor] = {}
        self._unusable: set[SupervisorSpec] = set()
        self._inventory = InventoryLoops(lambda: [each.setup for each in self._all()])
        self._shells = ShellLoop(lambda: [each.setup for each in self._all()])
        self._repeats = RepeatLoop(lambda: [_repeating(each.setup) for each in self._all()])
        self._stopping = threading.Event()
        self._stop: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Run until `stop()`. Raises RunnerInUse."""
        _collect_garbage_less_often()
        with only_runner():
            event_loop.run(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        for setup, control_plane in self._first:
            self._start(setup, control_plane)
        loops = [
            asyncio.create_task(self.keep_following_settings()),
            asyncio.create_task(self._inventory.keep_looking()),
            asyncio.create_task(self._inventory.keep_sweeping()),
            asyncio.create_task(self._shells.keep_serving()),
            asyncio.create_task(self._repeats.keep_repeating()),
        ]
        self._stop = lambda: loop.call_soon_threadsafe(self._stop_all)
        if self._stopping.is_set():
            self._stop_all()
        try:
            while working := [each.task for each in self._all() if not each.task.done()]:
                await asyncio.wait(working, timeout=POLL_INTERVAL_S)
        finally:
            self._stop = lambda: None
            await _cancel_tasks(loops)
            await _cancel_tasks([each.task for each in self._all()])
            for each in self._all():
                await each.control_plane.close()
                await each.setup.runtime.close()
        for each in self._all():
            if not each.task.cancelled() and (error := each.task.exception()):
                raise error

    def stop(self) -> None:
        """End `run()` and leave the units. Callable on any thread and in a signal handler."""
        self._stopping.set()
        self._stop()

    def _all(self) -> list[_RunningSupervisor]:
        return list(self._running.values())

    def _stop_all(self) -> None:
        for each in self._all():
            each.supervisor.stop()

    def _start(self, setup: SupervisorSetup, control_plane: InProcessControlPlane) -> None:
        supervisor = Supervisor(control_plane, setup.runtime, _options(setup))
        task = asyncio.create_task(_serve(setup.agent_id, supervisor), name=setup.agent_id)
        self._running[setup.agent_id] = _RunningSupervisor(setup, control_plane, supervisor, task)

    async def keep_following_settings(self) -> None:
        """Apply changed settings until canceled, as a background loop."""
        await keep_running("settings", self._follow_settings, longest_pause_s=POLL_INTERVAL_S)

    async def _follow_settings(self) -> None:
        """Apply the current settings, again and again; what fails is tried at the next poll."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            with one_cycle():
                try:
                    await self._apply_settings()
                except (ControlPlaneUnavailable, DatabaseError, DatastoreUnavailable) as error:
                    log.warning("changed backends cannot be served yet: %s", error)
                    report_error()

    async def _apply_settings(self) -> None:
        specs = {
            spec.agent_id: spec
            for spec in await on_store_thread(supervisor_specs, self._runtime_name)
        }
        for each in self._all():
            await self._adjust(each, specs.get(each.setup.agent_id))
        for agent_id in specs.keys() - self._running.keys():
            await self._add(specs[agent_id])

    async def _add(self, spec: SupervisorSpec) -> None:
        if spec in self._unusable:
            return
        created = await on_store_thread(_set_up, spec, self._runtime_name)
        if created is None:
            self._unusable.add(spec)
        elif not self._stopping.is_set():
            log.info("%s now serves %s", spec.agent_id, ", ".join(spec.backends))
            self._start(*created)

    async def _adjust(self, running: _RunningSupervisor, spec: SupervisorSpec | None) -> None:
        if running.task.done():  # it failed and was logged
            return
        if spec is not None and spec.engine == running.setup.spec.engine:
            if running.draining or spec.backends != running.setup.backends:
                await running.control_plane.serve(spec.backends)
                running.setup, running.draining = replace(running.setup, spec=spec), False
                log.info("%s now serves %s", spec.agent_id, ", ".join(spec.backends) or "none")
        elif not running.draining:
            await running.control_plane.serve(())
            running.draining = True
        elif await self._is_idle(running):
            await self._retire(running)

    async def _is_idle(self, running: _RunningSupervisor) -> bool:
        """Return True if it has no steps and, as far as its engine answers, no resources."""
        if running.supervisor.jobs:
            return False
        try:
            async with asyncio.timeout(POLL_INTERVAL_S):
                return not await running.setup.runtime.runs(_options(running.setup).owner)
        except (RuntimeFailure, TimeoutError) as error:
            log.warning(
                "%s: its remaining resources are unknown: %s", running.setup.agent_id, error
            )
            return True

    async def _retire(self, running: _RunningSupervisor) -> None:
        running.supervisor.stop()
        await asyncio.wait([running.task])
        await running.control_plane.deregister()
        await running.control_plane.close()
        await running.setup.runtime.close()
        del self._running[running.setup.agent_id]
        log.info("%s no longer serves any backend", running.setup.agent_id)


async def _cancel_tasks(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel the tasks that still run and wait for them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _set_up(
    spec: SupervisorSpec, runtime_name: str
) -> tuple[SupervisorSetup, InProcessControlPlane] | None:
    """Set up a supervisor and its control plane; call it on a thread, it reads the store."""
    setup = set_up_supervisor(spec, runtime_name)
    return None if setup is None else (setup, _control_plane(setup))


def _collect_garbage_less_often() -> None:
    """Collect garbage less often: log lines are many short-lived objects.

    With the default threshold of 700 objects, a run with much output needs an eighth more CPU.
    """
    if gc.get_threshold()[0] < _OBJECTS:
        gc.freeze()
        gc.set_threshold(_OBJECTS, 20, 50)


async def _serve(agent_id: str, supervisor: Supervisor) -> None:
    """Run a supervisor; log its failure at once, so that the others continue."""
    try:
        await supervisor.run()
    except Exception:
        log.exception("%s has failed; the other engines are still served", agent_id)
        raise


def _control_plane(setup: SupervisorSetup) -> InProcessControlPlane:
    incarnation = str(ids.new_uuid())
    registration = Registration(
        agent_id=setup.agent_id,
        incarnation=incarnation,
        kind="runner",
        name=setup.agent_id,
        capabilities=container_kinds(),
        backends=setup.backends,
        host_id=host.host_id(),
        pid=os.getpid(),
        process_started_at=host.process_started_at(),
    )
    claimant = SupervisorSession(
        agent_id=setup.agent_id,
        incarnation=incarnation,
        kinds=("local", "kubernetes"),
        backends=setup.backends,
        capabilities=container_kinds(),
        starts_ahead=conf.starts_ahead() if setup.runtime.starts_ahead else 0,
    )
    return InProcessControlPlane(registration, claimant)


def _repeating(setup: SupervisorSetup) -> RepeatingSupervisor:
    return RepeatingSupervisor(setup.agent_id, setup.runtime, _options(setup))


def _options(setup: SupervisorSetup) -> SupervisorOptions:
    owner = UnitOwner(
        installation_id=installation_id(), orchestrator_id=setup.agent_id, host_id=host.host_id()
    )
    return SupervisorOptions(
        owner=owner,
        state_dir=setup.state_dir,
        rules=conf.launch_rules(),
        capacity=conf.runner_capacity(),
        lease_s=conf.lease_s(),
        starts_ahead=conf.starts_ahead(),
    )


@contextmanager
def only_runner() -> Iterator[None]:
    """Hold the lock of the data folder, which ends with the process. Raises RunnerInUse."""
    conf.state_dir().mkdir(parents=True, exist_ok=True)
    with (conf.state_dir() / "runner.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunnerInUse(f"another runner uses {conf.state_dir()}; stop it first") from None
        yield


class RunnerThread:
    """A runner inside another process; `runtime`: a plug-in, by default LOCAL_RUNTIME."""

    def __init__(self, runtime: str = "") -> None:
        self._runtime = runtime or conf.local_runtime()
        self._runner = Runner(self._runtime)
        self._used = False
        self._ended = threading.Event()
        self._thread = BackgroundThread(
            "runner", self._work, ended=self._ended, after_failure=release_stale_connection
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        self._ended.set()
        self._runner.stop()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        """A runner that failed has closed its runtimes: another one takes over its steps."""
        if self._used:
            self._runner = Runner(self._runtime)
        self._used = True
        if not self._ended.is_set():
            self._runner.run()
