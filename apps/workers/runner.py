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
from typing import Final

from apps.agents.api import Registration
from apps.executions.api import Supervisor as Claimant
from apps.streams.api import release_stale_connection
from apps.system.api import installation_id
from apps.workers import conf, host
from apps.workers.control_plane.direct import DirectControlPlane
from apps.workers.domain.naming import Owner
from apps.workers.posts import Post, posts
from apps.workers.supervisor.supervisor import Options, Supervisor
from kernel import ids
from kernel.background import BackgroundThread

log = logging.getLogger("partita.workers")
_OBJECTS: Final = 20_000
KINDS = ("service", "task", "test")


class RunnerInUse(RuntimeError):
    """Another runner of this host has the data folder: two would adopt each other's steps."""


class Runner:
    """Made outside an event loop: it reads the store. Its containers stay for a successor."""

    def __init__(self, runtime_name: str) -> None:
        self._posts = [(post, _control_plane(post)) for post in posts(runtime_name)]
        self._stopping = threading.Event()
        self._stop: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Until `stop()`. Raises RunnerInUse."""
        _collect_seldom()
        with only_runner():
            asyncio.run(self._run())

    async def _run(self) -> None:
        supervisors = [
            Supervisor(control_plane, post.runtime, _options(post))
            for post, control_plane in self._posts
        ]

        def stop() -> None:
            for supervisor in supervisors:
                supervisor.stop()

        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(stop)
        if self._stopping.is_set():
            stop()
        try:
            served = [
                _serve(post.agent_id, supervisor)
                for (post, _), supervisor in zip(self._posts, supervisors, strict=True)
            ]
            ended = await asyncio.gather(*served, return_exceptions=True)
        finally:
            self._stop = lambda: None
            for post, control_plane in self._posts:
                await control_plane.close()
                await post.runtime.close()
        for error in filter(None, ended):
            raise error

    def stop(self) -> None:
        """From any thread, or a signal handler: claims nothing more, leaves what runs."""
        self._stopping.set()
        self._stop()


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


def _control_plane(post: Post) -> DirectControlPlane:
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
    claimant = Claimant(
        agent_id=post.agent_id,
        incarnation=incarnation,
        kinds=("local",),
        backends=post.backends,
        capabilities=KINDS,
    )
    return DirectControlPlane(registration, claimant)


def _options(post: Post) -> Options:
    owner = Owner(
        installation_id=installation_id(), orchestrator_id=post.agent_id, host_id=host.host_id()
    )
    return Options(
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
