"""The runner: the supervisors beside the store, for backends of kind `local`."""

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
from apps.streams.api import DatastoreUnavailable, release_stale_connection
from apps.system.api import installation_id
from apps.workers import conf
from apps.workers.control_plane.in_process import InProcessControlPlane
from apps.workers.supervisor_setup import (
    SupervisorSetup,
    SupervisorSpec,
    set_up_supervisor,
    set_up_supervisors,
    supervisor_specs,
)
from kernel import ids
from kernel.background import BackgroundThread
from worker import host
from worker.domain.control_plane import ControlPlaneUnavailable
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import RuntimeFailure
from worker.supervisor import event_loop
from worker.supervisor.supervisor import Supervisor, SupervisorOptions

log = logging.getLogger("partita.workers")
POLL_INTERVAL_S: Final = 2.0  # between two looks at the settings
_OBJECTS: Final = 20_000
KINDS = ("service", "task", "test")


class RunnerInUse(RuntimeError):
    """Another runner of this host has the data folder: two would adopt each other's steps."""


@dataclass(slots=True)
class _RunningSupervisor:
    """A supervisor at work. `leaving`: its backend is gone; what it still has comes to its end."""

    post: SupervisorSetup
    control_plane: InProcessControlPlane
    supervisor: Supervisor
    task: asyncio.Task[None]
    leaving: bool = False


class Runner:
    """Made outside an event loop: it reads the store. Its containers stay for a successor.

    A backend that is added to the settings, changed or taken out while it runs is served, or no
    longer, within LOOK_S and the time that its last steps need.
    """

    def __init__(self, runtime_name: str) -> None:
        self._runtime_name = runtime_name
        self._first = [(post, _control_plane(post)) for post in set_up_supervisors(runtime_name)]
        self._serving: dict[str, _RunningSupervisor] = {}
        self._unusable: set[SupervisorSpec] = set()
        self._stopping = threading.Event()
        self._stop: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Until `stop()`. Raises RunnerInUse."""
        _collect_seldom()
        with only_runner():
            event_loop.run(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        for post, control_plane in self._first:
            self._begin(post, control_plane)
        self._stop = lambda: loop.call_soon_threadsafe(self._stop_all)
        if self._stopping.is_set():
            self._stop_all()
        try:
            while working := [each.task for each in self._all() if not each.task.done()]:
                await asyncio.wait(working, timeout=POLL_INTERVAL_S)
                if not self._stopping.is_set():
                    await self._follow_settings()
        finally:
            self._stop = lambda: None
            await _ended([each.task for each in self._all()])
            for each in self._all():
                await each.control_plane.close()
                await each.post.runtime.close()
        for each in self._all():
            if not each.task.cancelled() and (error := each.task.exception()):
                raise error

    def stop(self) -> None:
        """From any thread, or a signal handler: claims nothing more, leaves what runs."""
        self._stopping.set()
        self._stop()

    def _all(self) -> list[_RunningSupervisor]:
        return list(self._serving.values())

    def _stop_all(self) -> None:
        for each in self._all():
            each.supervisor.stop()

    def _begin(self, post: SupervisorSetup, control_plane: InProcessControlPlane) -> None:
        supervisor = Supervisor(control_plane, post.runtime, _options(post))
        task = asyncio.create_task(_serve(post.agent_id, supervisor), name=post.agent_id)
        self._serving[post.agent_id] = _RunningSupervisor(post, control_plane, supervisor, task)

    async def _follow_settings(self) -> None:
        """What fails now is done at the next look."""
        try:
            listed = await asyncio.to_thread(supervisor_specs, self._runtime_name)
            wanted = {each.agent_id: each for each in listed}
            for each in self._all():
                await self._adjust(each, wanted.get(each.post.agent_id))
            for agent_id in wanted.keys() - self._serving.keys():
                await self._add(wanted[agent_id])
        except (ControlPlaneUnavailable, DatabaseError, DatastoreUnavailable) as error:
            log.warning("changed backends are served later: %s", error)

    async def _add(self, wanted: SupervisorSpec) -> None:
        if wanted in self._unusable:
            return
        made = await asyncio.to_thread(_made, wanted, self._runtime_name)
        if made is None:
            self._unusable.add(wanted)
        else:
            log.info("%s serves %s from now on", wanted.agent_id, ", ".join(wanted.backends))
            self._begin(*made)

    async def _adjust(self, serving: _RunningSupervisor, wanted: SupervisorSpec | None) -> None:
        if serving.task.done():  # it failed, and said so
            return
        if wanted is not None and wanted.engine == serving.post.wanted.engine:
            if serving.leaving or wanted.backends != serving.post.backends:
                await serving.control_plane.serve(wanted.backends)
                serving.post, serving.leaving = replace(serving.post, wanted=wanted), False
                log.info("%s serves %s now", wanted.agent_id, ", ".join(wanted.backends) or "none")
        elif not serving.leaving:
            await serving.control_plane.serve(())
            serving.leaving = True
        elif await self._has_nothing(serving):
            await self._retire(serving)

    async def _has_nothing(self, serving: _RunningSupervisor) -> bool:
        """No step, and on its engine no container, network or volume; an engine may be gone too."""
        if serving.supervisor.jobs:
            return False
        try:
            async with asyncio.timeout(POLL_INTERVAL_S):
                return not await serving.post.runtime.runs(_options(serving.post).owner)
        except (RuntimeFailure, TimeoutError) as error:
            log.warning("%s: what it left is not known: %s", serving.post.agent_id, error)
            return True

    async def _retire(self, serving: _RunningSupervisor) -> None:
        serving.supervisor.stop()
        await asyncio.wait([serving.task])
        await serving.control_plane.deregister()
        await serving.control_plane.close()
        await serving.post.runtime.close()
        del self._serving[serving.post.agent_id]
        log.info("%s serves nothing any more", serving.post.agent_id)


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    """Cancels those that still run: this process is told to end, or one of its parts failed."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _made(
    wanted: SupervisorSpec, runtime_name: str
) -> tuple[SupervisorSetup, InProcessControlPlane] | None:
    """On a thread: it reads the store."""
    post = set_up_supervisor(wanted, runtime_name)
    return None if post is None else (post, _control_plane(post))


def _collect_seldom() -> None:
    """Lines under way are many objects that live for a moment.

    To look at them each 700 objects costs an eighth of the CPU of a run that prints a lot.
    """
    if gc.get_threshold()[0] < _OBJECTS:
        gc.freeze()
        gc.set_threshold(_OBJECTS, 20, 50)


async def _serve(agent_id: str, supervisor: Supervisor) -> None:
    """One engine's failure is told when it happens, and takes nothing from the others."""
    try:
        await supervisor.run()
    except Exception:
        log.exception("%s has ended; the other engines are served on", agent_id)
        raise


def _control_plane(post: SupervisorSetup) -> InProcessControlPlane:
    incarnation = str(ids.new_uuid())
    registration = Registration(
        agent_id=post.agent_id,
        incarnation=incarnation,
        kind="runner",
        name=post.agent_id,
        capabilities=KINDS,
        backends=post.backends,
        host_id=host.host_id(),
        pid=os.getpid(),
        process_started_at=host.process_started_at(),
    )
    claimant = SupervisorSession(
        agent_id=post.agent_id,
        incarnation=incarnation,
        kinds=("local",),
        backends=post.backends,
        capabilities=KINDS,
    )
    return InProcessControlPlane(registration, claimant)


def _options(post: SupervisorSetup) -> SupervisorOptions:
    owner = UnitOwner(
        installation_id=installation_id(), orchestrator_id=post.agent_id, host_id=host.host_id()
    )
    return SupervisorOptions(
        owner=owner,
        state_dir=post.state_dir,
        rules=conf.launch_rules(),
        capacity=conf.runner_capacity(),
        lease_s=conf.lease_s(),
    )


@contextmanager
def only_runner() -> Iterator[None]:
    """Raises RunnerInUse. The lock ends with the process, whatever ends it."""
    conf.state_dir().mkdir(parents=True, exist_ok=True)
    with (conf.state_dir() / "runner.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunnerInUse(f"another runner uses {conf.state_dir()}; stop it first") from None
        yield


class RunnerThread:
    """A runner inside another process. `runtime`: the name of a plug-in; default LOCAL_RUNTIME."""

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
