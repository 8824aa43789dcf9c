"""Each background loop of the sync's processes is ended by an error and comes back, counted."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn

from kernel import background, telemetry
from kernel.background_writer import BackgroundWriter
from sync_stack.configuration.bundle_file import BundleFile
from sync_stack.configuration.conf import BundleSettings
from sync_stack.configuration.metrics import shared_text
from sync_stack.configuration.process_configuration import Configuration, open_configuration
from sync_stack.configuration.telemetry import (
    Endpoint,
    ExportSettings,
    LogShipper,
    ProcessTelemetry,
    ShippingSettings,
)
from sync_stack.configuration.vault import VaultClient
from sync_stack.core.bundle.secret_use import Process
from sync_stack.gateway import process as gateway_process
from sync_stack.gateway.forwarder import Outbound
from sync_stack.gateway.inbox import Inbox, InboxForwarder
from sync_stack.gateway.listener import InboundTls, Listener
from sync_stack.gateway.webhook_stream import _Stream
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.server import process as orchestrator_process
from sync_stack.orchestrator.server.broker import LocalWorkers, Publisher
from sync_stack.orchestrator.server.process import OrchestratorProcess
from sync_stack.orchestrator.server.task_copies import TaskCopies
from sync_stack.orchestrator.services import sweeps, task_transitions
from sync_stack.orchestrator.services.execution import attempt
from sync_stack.rpc.channel import OrchestratorChannel
from sync_stack.sinks.configmap.client import ConfigMapChanges
from sync_stack.watcher import process as watcher_process
from sync_stack.watcher.conf import read_settings
from sync_stack.watcher.notifications import ChangeNotifications
from sync_stack.watcher.poller import Poller
from sync_stack.watcher.process import Watcher
from tests.support.broken import Break, BrokenOnce, Unforeseen, comes_back, nothing
from tests.sync.gateway.certificates import Authority
from tests.sync.gateway.world import world

pytestmark = pytest.mark.usefixtures("quick_loops")
ORCHESTRATOR = (
    *("worker", "worker-poll", "http", "bundle"),
    *("sweep-wake", "sweep-recover", "sweep-retention", "sweep-certificates", "sweep-reconcile"),
)
GATEWAY = (
    *("ping", "channel-files", "tls-files", "date", "accept"),
    *("inbox", "inbox-forwarder", "webhook-stream"),
)
WATCHER = (
    *("admin", "lead", "poller", "polls", "notices", "heals", "retention"),
    *("ping", "channel-files"),
)


def bundle_file(folder: Path) -> Path:
    path = folder / "config.json"
    rule = {
        "name": "shop",
        "platform": "github",
        "datasource": "file",
        "repositories": ["acme/*"],
        "file_name": "app.yaml",
    }
    bundle = {
        "platforms": [{"github": {"endpoint": "http://127.0.0.1:9"}}],
        "datasources": [{"file": {"root": str(folder / "out"), "format": "json"}}],
        "rules": [rule | {"branch_map": {"main": "production"}}],
    }
    path.write_text(json.dumps({"bundle": bundle}), encoding="utf-8")
    return path


def opened(folder: Path, process: Process) -> Configuration:
    settings = BundleSettings(path=bundle_file(folder), reload_interval_s=0)
    return open_configuration(settings, process)


async def ended(stop: Callable[[], object]) -> None:
    stop()
    for _ in range(250):
        if not background.running():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"still running: {background.running()}")


async def test_every_loop_of_an_orchestrator_comes_back(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, broken: Break
):
    settings.SYNC_GRPC_ADDR = settings.SYNC_HTTP_ADDR = "127.0.0.1:0"
    settings.SYNC_RECONCILE_INTERVAL_S = 0.05
    monkeypatch.setattr(tasks, "check_store", lambda: None)
    monkeypatch.setattr(sweeps, "until_due", lambda _longest: 0.05)
    for name in ("WAKE_S", "RETAIN_S", "RENEW_S"):
        monkeypatch.setattr(orchestrator_process, name, 0.05)
    loops = {
        "worker": broken(LocalWorkers, "_run"),
        "worker-poll": broken(LocalWorkers, "_poll", nothing),
        "http": broken(uvicorn.Server, "run"),
        "bundle": broken(BundleFile, "reload"),
        "sweep-wake": broken(sweeps, "wake", nothing),
        "sweep-recover": broken(sweeps.LostWorkerDetector, "sweep", nothing),
        "sweep-retention": broken(sweeps, "retain", nothing),
        "sweep-certificates": broken(orchestrator_process, "renew_certificates", nothing),
        "sweep-reconcile": broken(orchestrator_process, "reconcile", nothing),
    }
    assert sorted(loops) == sorted(ORCHESTRATOR)
    configuration = opened(tmp_path, Process.ORCHESTRATOR)
    configuration.file.watch()
    process, over = OrchestratorProcess(configuration), asyncio.Event()
    running = asyncio.create_task(process.run(over))

    for name, once in loops.items():
        await comes_back(name, once, configuration.file.wake)
    url = f"http://127.0.0.1:{process.http_port}/v1/health/readiness"
    async with httpx.AsyncClient() as client:
        answer = await client.get(url)

    assert (answer.status_code, answer.json()["checks"]["background"]) == (200, "ok")
    assert b'sync_background_failures_total{loop="sweep-recover"} 1.0' in shared_text()
    over.set()
    await running
    await ended(configuration.close)


async def test_an_orchestrator_is_not_ready_while_a_loop_fails(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    settings.SYNC_GRPC_ADDR = settings.SYNC_HTTP_ADDR = "127.0.0.1:0"
    monkeypatch.setattr(tasks, "check_store", lambda: None)
    monkeypatch.setattr(LocalWorkers, "_poll", lambda _self: None)
    monkeypatch.setattr(orchestrator_process, "WAKE_S", 0.05)
    healthy = asyncio.Event()

    def sweep(_self: Any, _publish: Any) -> None:
        if not healthy.is_set():
            raise Unforeseen

    monkeypatch.setattr(sweeps, "wake", lambda *_arguments: None)
    monkeypatch.setattr(sweeps, "until_due", lambda _longest: 3600.0)
    monkeypatch.setattr(sweeps.LostWorkerDetector, "sweep", sweep)
    monkeypatch.setattr(orchestrator_process, "reconcile", lambda _ports: None)
    configuration = opened(tmp_path, Process.ORCHESTRATOR)
    process, over = OrchestratorProcess(configuration), asyncio.Event()
    running = asyncio.create_task(process.run(over))
    await process.serving.wait()
    url = f"http://127.0.0.1:{process.http_port}/v1/health/readiness"

    async def readiness() -> tuple[int, str]:
        async with httpx.AsyncClient() as client:
            answer = await client.get(url)
        return answer.status_code, answer.json()["checks"]["background"]

    await told(readiness, (503, "failed"))
    assert process._ready() == (False, "background loop sweep-recover failed")
    healthy.set()
    await told(readiness, (200, "ok"))
    over.set()
    await running
    configuration.close()


async def told(ask: Callable[[], Any], wanted: object) -> None:
    for _ in range(500):
        if await ask() == wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{await ask()} instead of {wanted}")


async def test_every_loop_of_a_gateway_comes_back(tmp_path: Path, broken: Break):
    files = Authority(tmp_path).pair("gateway")
    loops = {
        "ping": broken(gateway_process, "keep_pinging"),
        "channel-files": broken(OrchestratorChannel, "watch_files"),
        "tls-files": broken(InboundTls, "watch"),
        "date": broken(Listener, "_update_date"),
        "accept": broken(Listener, "_accept"),
        "inbox": broken(BackgroundWriter, "_next_batch"),
        "inbox-forwarder": broken(InboxForwarder, "_follow"),
        "webhook-stream": broken(_Stream, "_answer"),
    }
    assert sorted(loops) == sorted(GATEWAY)
    async with world(inbound_tls=files, inbox=tmp_path / "inbox") as gw:
        assert gw.gateway.inbox is not None
        sent = Outbound(message=b"", correlation_id="c", idempotency_key="k")
        assert await gw.gateway.inbox.put("acme/shop", sent)

        for name, once in loops.items():
            await comes_back(name, once)
        gw.gateway.health.record(ready=True)

        assert gw.gateway.health.state() == (True, "")


async def test_an_inbox_whose_disk_thread_fails_tells_who_waits(tmp_path: Path):
    inbox = Inbox(tmp_path / "inbox")

    def fail(_store: Any) -> None:
        raise Unforeseen

    with pytest.raises(OSError, match="the inbox failed: Unforeseen"):
        await inbox._run(fail)
    assert await inbox.put(
        "acme/shop", Outbound(message=b"x", correlation_id="c", idempotency_key="k")
    )
    inbox.close()


@asynccontextmanager
async def watcher(folder: Path) -> AsyncIterator[Watcher]:
    """A leader whose store is not asked."""
    settings = read_settings(
        {
            "CONFIG_PATH": str(bundle_file(folder)),
            "ADMIN_ADDR": "127.0.0.1:0",
            "APP_ENV": "test",
            "ORCHESTRATOR_ADDR": "127.0.0.1:9",
            "POLL_INTERVAL": "1s",
        }
    )
    made = Watcher(settings, open_configuration(settings.bundle, Process.WATCHER))
    lead: Any = SimpleNamespace(is_mine=True, step=lambda: None, release=lambda: None)
    made.leadership = lead
    over = asyncio.Event()
    running = asyncio.create_task(made.run(over))
    yield made
    over.set()
    assert await running
    made._configuration.close()


async def test_every_loop_of_a_watcher_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Break
):
    async def at_once(*_arguments: Any, **_options: Any) -> None:
        return None

    async def for_ever(*_arguments: Any, **_options: Any) -> None:
        await asyncio.Event().wait()

    for method in ("_resume", "cycle", "_retain"):
        monkeypatch.setattr(Poller, method, for_ever if method == "_retain" else at_once)
    monkeypatch.setattr(Poller, "_heal_drift", at_once)
    monkeypatch.setattr(ChangeNotifications, "listen", for_ever)
    loops = {
        "admin": broken(uvicorn.Server, "run"),
        "lead": broken(Watcher, "_follow_election"),
        "poller": broken(Poller, "run"),
        "polls": broken(Poller, "_cycles"),
        "notices": broken(ChangeNotifications, "listen"),
        "heals": broken(Poller, "_heal_drift"),
        "retention": broken(Poller, "_retain"),
        "ping": broken(watcher_process, "keep_pinging"),
        "channel-files": broken(OrchestratorChannel, "watch_files"),
    }
    assert sorted(loops) == sorted(WATCHER)
    async with watcher(tmp_path) as made:
        for name, once in loops.items():
            poke = (lambda: made.poller._start_heal("file", "u", "d")) if name == "heals" else None
            await comes_back(name, once, poke or (lambda: None))
        url = f"http://127.0.0.1:{made.admin.port}/metrics"
        async with httpx.AsyncClient() as client:
            metrics = (await client.get(url)).text

    assert 'sync_background_failures_total{loop="poller"} 1.0' in metrics


Piece = tuple[BrokenOnce, Callable[[], object]]  # what is broken, and how it is given work


@contextmanager
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Piece]:
    monkeypatch.setattr(task_transitions, "mark_published", lambda _ids, _now: None)
    once = BrokenOnce()
    publish = Publisher(once.call)
    publish.start()
    yield once, lambda: publish(["a"])
    publish.stop()


@contextmanager
def beating(monkeypatch: pytest.MonkeyPatch) -> Iterator[Piece]:
    once = BrokenOnce(lambda _claim: True)
    monkeypatch.setattr(task_transitions, "record_heartbeat", once.call)
    monkeypatch.setattr(attempt, "HEARTBEAT_S", 0.02)
    with attempt.Heartbeat(Claim("a", 1), begun=time.monotonic()) as made:
        yield once, made.check


@contextmanager
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Piece]:
    once = BrokenOnce()
    monkeypatch.setattr(tasks, "get", once.call)
    bundle: Any = SimpleNamespace(task_backend_datasource="file")
    made = TaskCopies(lambda: bundle, lambda _ref: "")
    yield once, lambda: made(["a"])


@contextmanager
def shipping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Piece]:
    once = BrokenOnce(lambda _self, _batch: [])
    monkeypatch.setattr(LogShipper, "_send", once.function())
    endpoint = Endpoint(url="http://127.0.0.1:9")
    settings = ShippingSettings(endpoints=(endpoint,), index="i", service="s")
    dropped: list[str] = []
    shipper = LogShipper(settings, dropped=lambda reason, _lines: dropped.append(reason))
    record = logging.LogRecord("x", logging.INFO, "x.py", 1, "line", (), None)
    yield once, lambda: shipper.emit(record)
    shipper.stop(5)
    assert dropped == ["failed"]


@contextmanager
def renewal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Piece]:
    once = BrokenOnce()
    monkeypatch.setattr(VaultClient, "_renew", once.function())
    VaultClient._plan(object.__new__(VaultClient), 0.01)
    yield once, lambda: None


@contextmanager
def watching(_monkeypatch: pytest.MonkeyPatch) -> Iterator[Piece]:
    cluster = SimpleNamespace(
        newest=lambda _namespace: "1",
        watch=lambda _namespace, _version: iter([("MODIFIED", "app", "2")]),
        close=lambda: None,
    )
    once = BrokenOnce(lambda: cluster)
    changes = ConfigMapChanges(once.call)
    place: Any = SimpleNamespace(name="shop/app", id="here")
    yield once, lambda: changes.next([place], 0.01)
    changes.close()


@contextmanager
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Piece]:
    once = BrokenOnce()
    monkeypatch.setattr(telemetry, "shutdown", once.call)
    exports = ProcessTelemetry(ExportSettings())
    exports._traces = True
    exports.stop(0.01)
    yield once, lambda: None


PIECES = {
    "publisher": publisher,
    "beat": beating,
    "task-copies": store,
    "shipping": shipping,
    "vault-renewal": renewal,
    "configmap-watch": watching,
    "traces-end": traces,
}


@pytest.mark.parametrize("name", PIECES)
async def test_each_loop_of_several_processes_comes_back(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    with PIECES[name](monkeypatch) as (once, poke):
        await comes_back(name, once, poke)

        assert background.failures()[name] == 1
