"""The runner: the supervisor beside the store, for backends of kind `local`."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from apps.agents.api import Registration
from apps.executions.api import Supervisor as Claimant
from apps.platform_settings.api import backends, pull_credentials
from apps.system.api import installation_id
from apps.workers import conf, host
from apps.workers.control_plane.direct import DirectControlPlane
from apps.workers.domain.naming import Owner
from apps.workers.domain.runtime import PullCredentials, Runtime, RuntimeOptions, runtimes
from apps.workers.supervisor.supervisor import Options, Supervisor
from kernel import ids

log = logging.getLogger("partita.workers")
KINDS = ("service", "task", "test")


class RunnerInUse(RuntimeError):
    """Another runner of this host has the data folder: two would adopt each other's steps."""


def agent_id() -> str:
    return f"runner:{host.host_name()}"[:128]


def local_backends() -> tuple[str, ...]:
    return tuple(each.backend_id for each in backends() if each.enabled and each.kind == "local")


def credentials_of(image: str) -> PullCredentials | None:
    """As the platform settings have them now."""
    if (found := pull_credentials(image)) is None:
        return None
    return PullCredentials(host=found.host, username=found.username, secret=found.secret)


def make_runtime(name: str) -> Runtime:
    """Raises UnknownPlugin, listing the known names."""
    return runtimes[name](
        RuntimeOptions(
            state_dir=conf.state_dir(),
            installation_id=installation_id(),
            pull_policy=conf.pull_policy(),
            helper_image=conf.init_image(),
            credentials=credentials_of,
        )
    )


class Runner:
    """Made outside an event loop: it reads the store. Its containers stay for a successor."""

    def __init__(self, runtime_name: str) -> None:
        self._runtime = make_runtime(runtime_name)
        self._control_plane = _control_plane()
        self._options = _options()
        self._stopping = threading.Event()
        self._stop: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Until `stop()`. Raises RunnerInUse."""
        with only_runner():
            asyncio.run(self._run())

    async def _run(self) -> None:
        supervisor = Supervisor(self._control_plane, self._runtime, self._options)
        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(supervisor.stop)
        if self._stopping.is_set():
            supervisor.stop()
        try:
            await supervisor.run()
        finally:
            self._stop = lambda: None
            await self._control_plane.close()
            await self._runtime.close()

    def stop(self) -> None:
        """From any thread, or a signal handler: claims nothing more, leaves what runs."""
        self._stopping.set()
        self._stop()


def _control_plane() -> DirectControlPlane:
    incarnation = str(ids.new_uuid())
    registration = Registration(
        agent_id=agent_id(),
        incarnation=incarnation,
        kind="runner",
        name=agent_id(),
        capabilities=KINDS,
        backends=local_backends(),
        host_id=host.host_id(),
        pid=os.getpid(),
        process_started_at=host.process_started_at(),
    )
    claimant = Claimant(
        agent_id=agent_id(),
        incarnation=incarnation,
        kinds=("local",),
        backends=registration.backends,
        capabilities=KINDS,
    )
    return DirectControlPlane(registration, claimant)


def _options() -> Options:
    owner = Owner(
        installation_id=installation_id(), orchestrator_id=agent_id(), host_id=host.host_id()
    )
    return Options(
        owner=owner,
        state_dir=conf.state_dir(),
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
        self._runner = Runner(runtime or conf.local_runtime())
        self._thread = threading.Thread(target=self._work, name="runner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        self._runner.stop()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        try:
            self._runner.run()
        except Exception:
            log.exception("the runner has ended")
