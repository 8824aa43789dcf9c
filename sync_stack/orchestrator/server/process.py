"""`run_orchestrator`: gRPC, HTTP, sweeps, and workers if there is no broker."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import grpc
from django.db import Error as StoreError
from django.db import close_old_connections
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from kernel import background
from kernel.background import PeriodicThread
from kernel.listeners import bound_socket
from kernel.version import VERSION
from sync_stack.configuration.process_configuration import Configuration
from sync_stack.configuration.startup import unavailable
from sync_stack.configuration.telemetry import start_telemetry
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.server.broker import (
    BrokerAway,
    LocalWorkers,
    Publisher,
    broker_url,
    count_queued_messages,
    send_to_broker,
    use_broker,
)
from sync_stack.orchestrator.server.grpc_service import Orchestrator, ServiceSettings
from sync_stack.orchestrator.server.http_api import HttpApi
from sync_stack.orchestrator.server.metrics import OrchestratorMetrics
from sync_stack.orchestrator.server.ports import collect_garbage_rarely, ports_of
from sync_stack.orchestrator.server.startup import address_of, grpc_files, renew_certificates
from sync_stack.orchestrator.services import sweeps
from sync_stack.orchestrator.services.execution.task_runner import run_task
from sync_stack.orchestrator.services.reconcile import reconcile
from sync_stack.rpc.channel import SERVER_OPTIONS
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import (
    add_OrchestratorServicer_to_server,
)
from sync_stack.rpc.http_thread import HttpThread
from sync_stack.rpc.tls import server_credentials

log: Final = logging.getLogger("partita.sync.orchestrator")
WAKE_S: Final = 5.0
RETAIN_S: Final = 3600.0
RENEW_S: Final = 3600.0
GRACE_S: Final = 20.0
FINISH_S: Final = 15.0
HTTP_STOP_S: Final = 2.0
_STORE_AWAY_S: Final = 2.0  # between two tries
_SERVICE: Final = "partita.sync.v1.Orchestrator"


class OrchestratorProcess:
    """The servers, sweeps and workers of one orchestrator."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._stopping = threading.Event()
        self._wake_s = WAKE_S
        self._abandon = threading.Event()  # ends the attempts under way
        self._grpc_up = False
        url = broker_url(configuration.bundle, configuration.secrets.resolve)
        self.workers: LocalWorkers | None = None
        if url:
            use_broker(conf.celery_application().conf, url)
            self.publish: Any = Publisher(send_to_broker, probe=count_queued_messages)
        else:
            collect_garbage_rarely()
            self.workers = LocalWorkers(
                lambda task_id: run_task(task_id, self._ports, stopping=self._abandon),
                conf.worker_concurrency(),
            )
            self.publish = self.workers
        self._ports = ports_of(configuration, self.publish)
        self.metrics = OrchestratorMetrics(version=VERSION)
        self.metrics.expect(configuration.bundle)
        configuration.file.on_change(self.metrics.expect)
        self.lost_workers = sweeps.LostWorkerDetector()
        self._reconcile_soon = threading.Event()
        configuration.file.on_change(lambda _bundle: self._reconcile_soon.set())
        self.grpc_port = self.http_port = 0
        self.serving = asyncio.Event()

    async def run(self, ended: asyncio.Event) -> None:
        """Serve until `ended`. Raises StartRefused when an address is in use."""
        server = await self._serve_grpc()
        http = self._serve_http()
        self.publish.start()
        self._start_sweeps()
        self.serving.set()
        log.info("the orchestrator serves", extra={"event": "started"})
        await ended.wait()
        self._stopping.set()
        self._grpc_up = False
        http.end()
        if isinstance(self.publish, Publisher):
            self.publish.stop()
        self._service.drain()
        await server.stop(GRACE_S)
        await asyncio.to_thread(http.stop, HTTP_STOP_S)
        if self.workers is not None:
            asyncio.get_running_loop().call_later(FINISH_S, self._abandon.set)
            await asyncio.to_thread(self.workers.stop, GRACE_S)

    async def _serve_grpc(self) -> Any:
        files = grpc_files()
        token = conf.grpc_token()
        host, port = address_of(conf.grpc_addr())
        if files is None and not token:
            host = "127.0.0.1"  # whatever the address says: only this host may trigger syncs
        server = grpc.aio.server(options=SERVER_OPTIONS)
        service = self._service = Orchestrator(
            bundle=lambda: self._configuration.bundle,
            publish=self._ports.publish,
            ready=self._ready,
            settings=ServiceSettings(token=token, identities=files is not None, version=VERSION),
            metrics=self.metrics,
        )
        add_OrchestratorServicer_to_server(service, server)  # type: ignore[no-untyped-call]
        await self._add_extras(server)
        where = f"{host}:{port}"
        try:
            if files is None:
                self.grpc_port = server.add_insecure_port(where)
            else:
                self.grpc_port = server.add_secure_port(where, server_credentials(files))
        except RuntimeError:
            raise unavailable(f"ORCHESTRATOR_GRPC_ADDR {where}: cannot be listened on") from None
        await server.start()
        self._grpc_up = True
        return server

    async def _add_extras(self, server: Any) -> None:
        servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        await servicer.set(_SERVICE, health_pb2.HealthCheckResponse.SERVING)
        if not conf.is_production():
            from grpc_reflection.v1alpha import reflection

            names = (pb.DESCRIPTOR.services_by_name["Orchestrator"].full_name, health.SERVICE_NAME)
            reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], server)

    def _serve_http(self) -> HttpThread:
        api = HttpApi(
            keys=conf.task_api_keys(),
            origins=conf.cors_origins(),
            checks=self._checks,
            metrics=self.metrics,
        )
        listener = _bind(address_of(conf.http_addr()))
        self.http_port = listener.getsockname()[1]
        server = HttpThread("http", api, listener)
        server.start()
        return server

    def _count_queued(self) -> int:
        """Return the messages in the broker; 0 if unknown: some tasks are then published twice."""
        if self.workers is not None or self.publish.failing:
            return 0
        try:
            return count_queued_messages()
        except BrokerAway as error:
            log.warning("the length of the queue is unknown: %s", error)
            return 0

    def _start_sweeps(self) -> None:
        interval = conf.reconcile_interval_s()
        self._sweep("wake", lambda: self._stopping.wait(self._wake_s), self._wake)
        periodic: list[tuple[str, float, Callable[[], Any]]] = [
            ("recover", WAKE_S, lambda: self.lost_workers.sweep(self._ports.publish)),
            ("retention", RETAIN_S, sweeps.retain),
            ("certificates", RENEW_S, renew_certificates),
        ]
        for name, period, act in periodic:
            self._sweep(name, partial(self._stopping.wait, period), act)
        if interval:
            self._sweep(
                "reconcile", lambda: self._wait_reconcile(interval), lambda: reconcile(self._ports)
            )

    def _wake(self) -> None:
        self._wake_s = WAKE_S
        sweeps.wake(self.publish, self._count_queued)
        self._wake_s = sweeps.until_due(WAKE_S)

    def _sweep(self, name: str, wait: Callable[[], bool], act: Callable[[], Any]) -> None:
        def sweep() -> None:
            """Sweep; while the store is away, again and again, however long the period is."""
            while not _is_done(name, act) and not self._stopping.wait(_STORE_AWAY_S):
                pass

        PeriodicThread(
            f"sweep-{name}",
            sweep,
            wait,
            ended=self._stopping,
            after_failure=close_old_connections,
        ).start()

    def _wait_reconcile(self, interval: float) -> bool:
        period = interval * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load
        self._reconcile_soon.wait(period)
        self._reconcile_soon.clear()
        return self._stopping.is_set()

    def _ready(self) -> tuple[bool, str]:
        disabled = map(str, self._configuration.bundle.disabled_rules)
        broken = [f"background loop {name} failed" for name in background.failing()]
        ready = self._checks()["store"] == "ok" and not broken and not self._stopping.is_set()
        return ready, "; ".join([*broken, *disabled])

    def _checks(self) -> dict[str, str]:
        failing = isinstance(self.publish, Publisher) and self.publish.failing
        return {
            "store": _store(),
            "broker": "degraded" if failing else "ok",
            "grpc": "ok" if self._grpc_up else "failed",
            "git_cache": _git_cache(),
            "background": _background(),
        }


def _is_done(name: str, act: Callable[[], Any]) -> bool:
    """Sweep once; return False while the store is away."""
    close_old_connections()
    with background.one_cycle():
        try:
            act()
        except StoreError as error:
            log.warning("sweep %s: the store failed: %s", name, type(error).__name__)
            background.report_error()
            return False
    return True


def _background() -> str:
    if background.failing():
        return "failed"
    return "degraded" if background.degraded_loops() else "ok"


def _store() -> str:
    try:
        tasks.check_store()
    except StoreError:
        return "failed"
    return "ok"


def _git_cache() -> str:
    try:
        conf.git_cache_dir().mkdir(parents=True, exist_ok=True, mode=0o750)
    except OSError:
        return "degraded"
    return "ok"


def _bind(address: tuple[str, int]) -> socket.socket:
    host, port = address
    try:
        bound = bound_socket(host, port)
    except OSError as error:
        raise unavailable(f"ORCHESTRATOR_HTTP_ADDR {host}:{port}: {error.strerror}") from None
    bound.listen(2048)
    return bound


async def serve(configuration: Configuration) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartRefused."""
    exports = start_telemetry("orchestrator")
    try:
        await _serve(configuration)
    finally:
        await asyncio.to_thread(exports.stop)


async def _serve(configuration: Configuration) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_signal_handler(signal.SIGHUP, configuration.file.wake)
    configuration.file.watch()
    await OrchestratorProcess(configuration).run(ended)
    configuration.close()
