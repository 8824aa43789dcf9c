"""The standalone worker: one process, one event loop, no store (reference: control-plane 15.3)."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import signal
import socket
import uuid
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvicorn

from kernel.errors import PlatformError
from kernel.listeners import bound_socket
from worker import host
from worker.application import WorkerApplication
from worker.control_plane.client import ControlPlaneClient
from worker.control_plane.held_jobs import HeldJobs
from worker.control_plane.http import HttpControlPlane, InstallationChanged, WorkerRegistration
from worker.direct_runs import DirectRunRecord
from worker.domain.cluster_options import ClusterOptions
from worker.domain.control_plane import ControlPlaneError
from worker.domain.launch import LaunchRules
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import RemovedResources, RuntimeOptions
from worker.domain.step_spec import StepSpec
from worker.runtimes import runtimes
from worker.service import ControlPlaneConnection, WorkerService
from worker.settings import WorkerSettings
from worker.supervisor import event_loop
from worker.supervisor.attempt import SupervisorOptions
from worker.supervisor.waits import cancel_all, first_of, retry_until_answered

log = logging.getLogger("partita.workers")
VERSION: Final = "1"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_CONNECTIONS_S: Final = 5


class WorkerInUse(RuntimeError):
    """Another process uses this folder: each would adopt the other's steps."""


class WorkerState:
    """The files that a worker keeps between two processes; `folder` belongs to one agent id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._installation = folder / "installation"

    @contextmanager
    def lock_folder(self) -> Iterator[None]:
        """Hold the folder's lock, which ends with the process. Raises WorkerInUse."""
        with (self.folder / "worker.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WorkerInUse(
                    f"another worker uses {self.folder}; stop it, or set AGENT_ID or DATA_DIR"
                ) from None
            yield

    @property
    def installation_id(self) -> str:
        """The installation of the last control plane; empty at the first start."""
        try:
            return self._installation.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""

    def store_installation(self, installation_id: str) -> None:
        scratch = self._installation.with_suffix(".new")
        scratch.write_text(installation_id, encoding="ascii")
        scratch.replace(self._installation)


class WorkerFailed(RuntimeError):
    """The worker cannot run with its settings; the message says why."""


class Unready(PlatformError):
    code = "backend_unavailable"


class WorkerDraining(PlatformError):
    code = "shutting_down"

    def __init__(self) -> None:
        super().__init__("this worker is shutting down and accepts no more jobs")


class Worker:
    """The process behind `partita run_worker`; `folder` is its own."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        folder: Path,
        runtime: str,
        pull_policy: str,
        helper_image: str,
        rules: LaunchRules,
    ) -> None:
        self.agent_id = settings.agent_id
        self.secret = settings.secret
        self._settings = settings
        self._state = WorkerState(folder)
        self._runtime_name = runtime
        self._pull_policy = pull_policy
        self._helper_image = helper_image
        self._rules = rules
        self._incarnation = str(uuid.uuid4())
        self._service: WorkerService | None = None
        self._draining = asyncio.Event()
        self._force_quit = asyncio.Event()

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, then drain. Raises WorkerInUse, WorkerFailed."""
        with self._state.lock_folder(), _listener(self._settings) as listener:
            event_loop.run(self._run(listener))

    async def _run(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        server = _Server(WorkerApplication(self))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await self._run_until_drained()
        except (ControlPlaneError, PlatformError) as error:
            raise WorkerFailed(str(error)) from error
        finally:
            server.should_exit = True
            await serving

    def _on_signal(self) -> None:
        """Drain at the first signal; at the second, end and leave the units to the next process."""
        if self._draining.is_set():
            self._force_quit.set()
        self._draining.set()

    async def _run_until_drained(self) -> None:
        working = asyncio.create_task(self._work())
        try:
            first = await first_of(working=working, draining=self._draining.wait())
            if first == "draining" and self._service is not None:
                await self._drain(self._service)
        finally:
            await cancel_all([working])

    async def _drain(self, service: WorkerService) -> None:
        log.info("draining: no more jobs are claimed; %d jobs are running", service.running_jobs)
        draining = asyncio.create_task(service.drain(self._settings.drain_s))
        hurried = asyncio.create_task(self._force_quit.wait())
        await asyncio.wait({draining, hurried}, return_when=asyncio.FIRST_COMPLETED)
        draining.cancel()
        hurried.cancel()
        await asyncio.gather(draining, return_exceptions=True)

    async def _work(self) -> None:
        connection = await self._connection()
        service = self._service_for(self._state.installation_id, connection)
        self._service = service
        try:
            await service.run()
        except InstallationChanged as changed:
            self._state.store_installation(changed.installation_id)
            raise WorkerFailed(f"{changed}; restart this worker to work for it") from changed
        finally:
            await service.close()

    async def _connection(self) -> ControlPlaneConnection | None:
        """Connect to the control plane, if there is one, and store the installation's id."""
        settings = self._settings
        if not settings.control_plane_url or not settings.secret:
            if not settings.secret:
                log.error("AGENT_SHARED_SECRET has fewer than 16 characters: no jobs are claimed")
            self._state.store_installation(self._state.installation_id or str(uuid.uuid4()))
            return None
        client = ControlPlaneClient(settings.control_plane_url, settings.secret)
        held = HeldJobs(self._state.folder / "held", settings.secret)
        control_plane = HttpControlPlane(
            client,
            self._registration(),
            held,
            installation_id=self._state.installation_id,
            direct_runs=lambda: self._service.direct_runs() if self._service else frozenset(),
        )
        if not self._state.installation_id:
            found = await retry_until_answered(control_plane.discover_installation)
            self._state.store_installation(found)
        return ControlPlaneConnection(control_plane=control_plane, client=client, held=held)

    def _registration(self) -> WorkerRegistration:
        settings = self._settings
        return WorkerRegistration(
            agent_id=settings.agent_id,
            incarnation=self._incarnation,
            name=settings.name,
            host_url=settings.public_url,
            backends=settings.backends,
            capabilities=settings.step_kinds,
            labels=settings.labels,
            version=VERSION,
        )

    def _service_for(
        self, installation_id: str, connection: ControlPlaneConnection | None
    ) -> WorkerService:
        folder = self._state.folder
        owner = UnitOwner(
            installation_id=installation_id,
            orchestrator_id=self.agent_id,
            host_id=host.host_id(),
        )
        plugin = runtimes[self._runtime_name]
        runtime = plugin.open(
            RuntimeOptions(
                state_dir=folder,
                installation_id=installation_id,
                pull_policy=self._pull_policy,
                helper_image=self._helper_image,
                cluster=ClusterOptions(kubeconfig=self._settings.kubeconfig),
            )
        )
        if connection is not None and runtime.starts_ahead:
            connection.control_plane.starts_ahead = self._settings.starts_ahead
        if not plugin.isolates:
            log.warning("the runtime %s: steps are (not isolated)", self._runtime_name)
        options = SupervisorOptions(
            owner=owner,
            state_dir=folder,
            rules=self._rules,
            capacity=self._settings.concurrency,
            starts_ahead=self._settings.starts_ahead,
        )
        return WorkerService(runtime, options, connection)

    def info(self) -> Mapping[str, object]:
        facts = {
            "agentId": self.agent_id,
            "name": self._settings.name or self.agent_id,
            "hostUrl": self._settings.public_url,
            "status": "draining" if self._draining.is_set() else "ready",
            "capabilities": list(self._settings.step_kinds),
            "version": VERSION,
            "runningJobs": self._service.running_jobs if self._service else 0,
            "lastHeartbeatAt": self._service.last_heartbeat_at if self._service else "",
        }
        return {key: value for key, value in facts.items() if value != ""}

    async def start(self, spec: StepSpec, files: bytes | None) -> AsyncGenerator[DirectRunRecord]:
        if self._draining.is_set():
            raise WorkerDraining
        if self._service is None:
            raise Unready("this worker has not reached its control plane yet")
        return await self._service.start(spec, files)

    def cancel(self, job_id: str) -> bool:
        return self._service.cancel(job_id) if self._service else False

    async def cleanup(self, job_id: str) -> RemovedResources | None:
        return await self._service.cleanup(job_id) if self._service else None


class _Server(uvicorn.Server):
    """A server that leaves the signals to the worker."""

    def __init__(self, application: WorkerApplication) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=_CONNECTIONS_S,
                server_header=False,
                proxy_headers=False,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.contextmanager
def _listener(settings: WorkerSettings) -> Generator[socket.socket]:
    try:
        listener = bound_socket(settings.host, settings.port)
    except OSError as error:
        raise WorkerFailed(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "AGENT_PORT names another port"
        ) from None
    with listener:
        yield listener
