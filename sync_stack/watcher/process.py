"""`run_watcher`: build the watcher, follow the election, serve its admin listener, stop in 10 s."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from django.db import Error as StoreError
from prometheus_client import disable_created_metrics

from kernel import clock
from kernel.background import keep_running, one_cycle, report_error
from kernel.listeners import bound_socket
from sync_stack.configuration.conf import process_environment
from sync_stack.configuration.process_configuration import Configuration, open_configuration
from sync_stack.configuration.startup import refusing, unavailable
from sync_stack.configuration.telemetry import ProcessTelemetry
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.secret_use import Process
from sync_stack.rpc.channel import OrchestratorChannel
from sync_stack.rpc.http_thread import HttpThread, Send
from sync_stack.rpc.readiness import Health, keep_pinging
from sync_stack.sinks.open_sinks import Sinks
from sync_stack.watcher.conf import WatcherSettings, read_settings
from sync_stack.watcher.drift_check import DriftChecker
from sync_stack.watcher.heal_requests import Healer, HealSettings
from sync_stack.watcher.heal_state import HealStates, open_heal_state_store
from sync_stack.watcher.leader_election import HEARTBEAT_S, LeaderElection
from sync_stack.watcher.metrics import CONTENT_TYPE, WatcherMetrics
from sync_stack.watcher.poller import Poller
from sync_stack.watcher.threads import WatcherThreads

_JSON: Final = "application/json"
_ADMIN_STOP_S: Final = 2.0
AdminFacts = Callable[[], tuple[bool, str, bool, int]]  # ready, detail, leader, targets
AdminResponse = tuple[int, str, bytes]


class AdminApp:
    """An ASGI application with three routes."""

    def __init__(self, facts: AdminFacts, metrics: Callable[[], bytes]) -> None:
        self._facts = facts
        self._metrics = metrics

    async def __call__(self, scope: Any, _receive: Any, send: Send) -> None:
        status, kind, body = self._respond(scope["method"], scope["path"])
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        if status == 405:  # noqa: PLR2004
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        shown = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": shown})

    def _respond(self, method: str, path: str) -> AdminResponse:
        routes: dict[str, Callable[[], AdminResponse]] = {
            "/health/liveness": lambda: _admin_answer(200, {"status": "ok"}),
            "/health/readiness": self._readiness,
            "/metrics": lambda: (200, CONTENT_TYPE, self._metrics()),
        }
        if path not in routes:
            return _admin_answer(404, {"status": "NOT_FOUND"})
        if method not in ("GET", "HEAD"):
            return _admin_answer(405, {"status": "METHOD_NOT_ALLOWED"})
        return routes[path]()

    def _readiness(self) -> AdminResponse:
        ready, detail, leader, targets = self._facts()
        if not ready:
            return _admin_answer(503, {"status": "NOT_READY", "detail": detail})
        document = {"status": "READY", "leader": leader, "targets": targets}
        return _admin_answer(200, document | ({"detail": detail} if detail else {}))


def _admin_answer(status: int, content: Mapping[str, object]) -> AdminResponse:
    return status, _JSON, json.dumps(content).encode()


class AdminListener:
    """Serve the admin routes. Raises StartRefused if the address is not available."""

    def __init__(self, app: AdminApp, address: tuple[str, int]) -> None:
        host, port = address
        try:
            self._socket = bound_socket(host, port)
        except OSError as error:
            raise unavailable(f"ADMIN_ADDR {host}:{port}: {error.strerror}") from None
        self._socket.listen()
        self.port: int = self._socket.getsockname()[1]
        self._server = HttpThread("admin", app, self._socket)

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop(_ADMIN_STOP_S)


log: Final = logging.getLogger("partita.sync.watcher")
CLOSE_S: Final = 1.0
GRACE_S: Final = 5.0
_ELECTION_POLL_S: Final = 1.0
_LAST_WORDS_S: Final = 1.0


class Watcher:
    """One watcher, built and used on one event loop."""

    def __init__(self, settings: WatcherSettings, configuration: Configuration) -> None:
        self._settings = settings
        self._configuration = configuration
        resolve = configuration.secrets.resolve
        self.metrics = WatcherMetrics(version=settings.version)
        self.metrics.expect(configuration.bundle)
        self.heal_states = HealStates(
            lambda: open_heal_state_store(configuration.bundle, resolve), settings.poll_interval_s
        )
        self.checker = DriftChecker(
            bundle=lambda: configuration.bundle,
            open_sink=Sinks(resolve),
            heal_states=self.heal_states,
            metrics=self.metrics,
            now=clock.now,
            poll_interval_s=settings.poll_interval_s,
            log_values=settings.log_values,
        )
        me = f"{socket.gethostname()[:60]}:{os.getpid()}:{time.time_ns() % 10**9}"
        self.leadership = LeaderElection(me, time.monotonic)
        self.channel = OrchestratorChannel.open(settings.orchestrator, settings.grpc_tls)
        self.threads = WatcherThreads(self.checker, settings.concurrency)
        self.healer = self._healer(settings)
        self.poller = Poller(
            self.checker,
            self.healer,
            self.threads,
            bundle=lambda: configuration.bundle,
            interval_s=settings.poll_interval_s,
        )
        self.health = Health(self._notes, time.monotonic)
        self.admin = AdminListener(AdminApp(self._facts, self._metrics_text), settings.admin)
        self._work: asyncio.Task[None] | None = None
        self._store_failing = False
        configuration.file.on_change(self._on_bundle_change)

    def _healer(self, settings: WatcherSettings) -> Healer:
        return Healer(
            checker=self.checker,
            channel=self.channel,
            threads=self.threads,
            settings=HealSettings(
                call_timeout_s=settings.heal_timeout_s,
                task_timeout_s=settings.heal_task_timeout_s,
                poll_interval_s=settings.poll_interval_s,
                token=settings.token,
            ),
            leads=lambda: self.leadership.is_mine,
            monotonic=time.monotonic,
        )

    async def run(self, ended: asyncio.Event) -> bool:
        """Run until `ended`; return whether all threads have ended."""
        self.admin.start()
        asking = partial(keep_pinging, self.channel, self.health, token=self._settings.token)
        loops = [
            asyncio.create_task(keep_running(name, work))
            for name, work in (
                ("ping", asking),
                ("channel-files", self.channel.watch_files),
                ("lead", self._follow_election),
            )
        ]
        log.info("the watcher runs", extra={"event": "started", "port": self.admin.port})
        await ended.wait()
        self.health.terminating = True
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await self._stop_work()
        await self._release()
        await self.channel.close(CLOSE_S)
        clean = await self.threads.close(GRACE_S)
        await asyncio.to_thread(self.admin.stop)
        return clean

    async def _follow_election(self) -> None:
        """Take part in the election; the poller runs while this watcher leads."""
        while True:
            with one_cycle():
                await self._step()
            if self.leadership.is_mine and self._work is None:
                log.info("this watcher leads", extra={"event": "leading"})
                self._work = asyncio.create_task(keep_running("poller", self.poller.run))
            elif not self.leadership.is_mine and self._work is not None:
                log.warning("another watcher may lead", extra={"event": "lead_lost"})
                await self._stop_work()
            pause = HEARTBEAT_S if self.leadership.is_mine else _ELECTION_POLL_S
            await asyncio.sleep(pause * random.uniform(0.8, 1))  # noqa: S311 - spreads load

    async def _step(self) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self.threads.run(self.leadership.step)
            self._store_failing = False
        except (StoreError, TimeoutError) as error:
            if not self._store_failing:
                log.warning(
                    "the store failed: %s", type(error).__name__, extra={"event": "store_failed"}
                )
            self._store_failing = True
            report_error()

    async def _stop_work(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(2):
                await self.threads.run(self.leadership.release)
        except (StoreError, TimeoutError):
            log.warning("the leadership could not be released", extra={"event": "store_failed"})

    def _on_bundle_change(self, bundle: Bundle) -> None:
        self.metrics.expect(bundle)
        self.heal_states.reopen()

    def _notes(self) -> list[str]:
        notes = [*map(str, self._configuration.bundle.disabled_rules)]
        return [*notes, "the store cannot be used"] if self._store_failing else notes

    def _facts(self) -> tuple[bool, str, bool, int]:
        ready, detail = self.health.state()
        return ready, detail, self.leadership.is_mine, len(self.checker.facts)

    def _metrics_text(self) -> bytes:
        self.metrics.leader.set(self.leadership.is_mine)
        self.metrics.show(dict(self.checker.facts))
        return self.metrics.text()


def run() -> None:
    """Watch until SIGTERM or SIGINT; exit with 78 or 69 if the watcher cannot start."""
    with refusing():
        settings = read_settings(process_environment())
        disable_created_metrics()  # type: ignore[no-untyped-call]
        clean = asyncio.run(_serve(settings))
    if not clean:
        logging.shutdown()
        os._exit(0)  # a sink that hangs must not delay the exit


async def _serve(settings: WatcherSettings) -> bool:
    exports = ProcessTelemetry(settings.exports)
    try:
        return await _watch(settings)
    finally:
        await asyncio.to_thread(exports.stop, _LAST_WORDS_S)


async def _watch(settings: WatcherSettings) -> bool:
    configuration = open_configuration(settings.bundle, Process.WATCHER)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_signal_handler(signal.SIGHUP, configuration.file.wake)
    watcher = Watcher(settings, configuration)
    configuration.file.watch()
    try:
        return await watcher.run(ended)
    finally:
        configuration.close()
