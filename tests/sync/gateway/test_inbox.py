"""Deliveries on disk: nothing answered is lost, order is kept (reference: sync-stack 2.12)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import httpx
import pytest

from sync_stack.core.bundle.model import Rate
from sync_stack.gateway import inbox as inbox_module
from sync_stack.gateway.forwarder import Outbound
from sync_stack.gateway.inbox import Inbox, InboxUnusable
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import ProcessWebhookRequest
from tests.support.webhooks import github_push, signed
from tests.sync.gateway.world import Orchestrator, answer, bundle, limits, serving, world

ROOT = Path(__file__).resolve().parents[3]


async def until(condition: Callable[[], bool], timeout_s: float = 15) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - the other side is another process
            await asyncio.sleep(0.02)


async def test_a_delivery_is_queued_and_forwarded_in_order_of_its_repository(tmp_path):
    path = tmp_path / "inbox.sqlite"
    async with world(inbox=path) as gw:
        for number in range(20):
            response = await gw.send(github_push(n=number), delivery=str(number))
            assert answer(response) == (202, "queued")
            assert response.json()["task_id"] == ""
        await until(lambda: len(gw.orchestrator.calls) == 20)

        assert [call.delivery_id for call in gw.orchestrator.calls] == [str(n) for n in range(20)]
        await until(lambda: gw.gateway.inbox is not None and gw.gateway.inbox.count == 0)
        assert (path.stat().st_mode & 0o777) == 0o600
        replay = await gw.send(github_push(n=1), delivery="1")
        assert answer(replay) == (401, "GW_REPLAY_DETECTED")


async def test_a_repository_has_one_call_under_way_and_others_do_not_wait_for_it(tmp_path):
    async with world(inbox=tmp_path / "inbox.sqlite") as gw:
        calls, gw.orchestrator.gate = gw.orchestrator.calls, asyncio.Event()
        for number in range(5):
            await gw.send(github_push(n=number), delivery=str(number))
        await gw.send(github_push("acme/cart"), delivery="cart")
        await until(lambda: any(call.delivery_id == "cart" for call in calls))
        assert [call.delivery_id for call in calls] == ["0", "cart"]

        gw.orchestrator.gate.set()
        await until(lambda: len(calls) == 6)
        assert [call.delivery_id for call in calls] == ["0", "cart", "1", "2", "3", "4"]


async def test_what_fails_is_tried_again_and_what_is_refused_is_set_aside(tmp_path, caplog):
    async with world(inbox=tmp_path / "inbox.sqlite") as gw:
        assert gw.gateway._inbox_forwarder is not None
        gw.gateway._inbox_forwarder.first_pause_s = 0.05
        gw.orchestrator.failing = grpc.StatusCode.UNAVAILABLE
        await gw.send(github_push(n=1), delivery="1")
        await until(lambda: len(gw.orchestrator.calls) >= 2)
        gw.orchestrator.failing = grpc.StatusCode.INVALID_ARGUMENT
        await until(lambda: gw.gateway.inbox is not None and gw.gateway.inbox.aside == 1)
        gw.orchestrator.failing = None
        await gw.send(github_push(n=2), delivery="2")
        await until(lambda: len(gw.orchestrator.tasks) == 1)

        assert "a delivery is set aside" in caplog.text
        assert 'gw_inbox_deliveries{state="aside"} 1.0' in await gw.metrics()


async def test_what_waits_for_the_breaker_goes_on_as_soon_as_it_admits_a_call(tmp_path):
    """Sync invariant 1: the pause after a failure is not waited for on top."""
    quick = limits(breaker_failures=1, breaker_open_s=0.5, breaker_successes=1)
    async with world(bundle(gateway=quick), inbox=tmp_path / "inbox.sqlite") as gw:
        assert gw.gateway._inbox_forwarder is not None
        gw.gateway._inbox_forwarder.first_pause_s = 3600
        gw.orchestrator.failing = grpc.StatusCode.UNAVAILABLE
        for number in range(3):
            await gw.send(github_push(repo=f"acme/r{number}", n=number), delivery=str(number))
        await until(lambda: len(gw.orchestrator.calls) >= 2, 30)
        gw.orchestrator.failing = None
        await until(lambda: len(gw.orchestrator.tasks) == 3, 30)


async def test_a_full_inbox_forwards_in_line(tmp_path, monkeypatch):
    monkeypatch.setattr(inbox_module, "MAX_DELIVERIES", 0)
    async with world(inbox=tmp_path / "inbox.sqlite") as gw:
        assert answer(await gw.send()) == (202, "accepted")


async def test_deliveries_that_are_stored_together_keep_their_own_numbers(tmp_path):
    inbox = Inbox(tmp_path / "inbox.sqlite")
    keys = [f"{number:03}" for number in range(300)]
    await asyncio.gather(*(inbox.put(f"acme/{key}", _outbound(key)) for key in keys))

    assert [entry.repository for entry in inbox.waiting] == [f"acme/{key}" for key in keys]
    assert [inbox.read(entry).idempotency_key for entry in inbox.waiting] == keys
    inbox.close()


def _outbound(key: str) -> Outbound:
    message = ProcessWebhookRequest(idempotency_key=key).SerializeToString()
    return Outbound(message=message, idempotency_key=key, correlation_id="")


async def test_one_process_has_the_file(tmp_path):
    first = Inbox(tmp_path / "inbox.sqlite")
    with pytest.raises(InboxUnusable, match="another process is using it"):
        Inbox(tmp_path / "inbox.sqlite")
    first.close()


BUNDLE = """
bundle: {
	platforms: [{github: {secret: {env: "HOOK_SECRET"}}}]
	datasources: [{file: {root: "/nowhere"}}]
	rules: [{platform: "github", datasource: "file", repositories: ["acme/*"], file_name: "a.yaml"}]
}
"""


class Process:
    """`manage.py run_gateway` on free ports."""

    def __init__(self, folder: Path, orchestrator_port: int, **variables: str) -> None:
        (folder / "config.cue").write_text(BUNDLE)
        self.port, self.admin = _free_port(), _free_port()
        self._log = folder / f"log-{self.port}"
        environment = {
            "PATH": os.environ["PATH"],
            "CONFIG_PATH": str(folder / "config.cue"),
            "HOOK_SECRET": "s3cret-key",
            "GATEWAY_ADDR": f"127.0.0.1:{self.port}",
            "ADMIN_ADDR": f"127.0.0.1:{self.admin}",
            "ORCHESTRATOR_ADDR": f"127.0.0.1:{orchestrator_port}",
            "GATEWAY_RATE_PER_IP": "off",
            "GATEWAY_RATE_PER_KEY": "off",
            "GATEWAY_RATE_GLOBAL": "off",
            **variables,
        }
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "run_gateway"],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    async def up(self) -> None:
        async with asyncio.timeout(90), httpx.AsyncClient() as client:
            while True:
                try:
                    await client.get(f"http://127.0.0.1:{self.port}/health/liveness")
                except httpx.TransportError:
                    assert self.process.poll() is None, self.log()
                    await asyncio.sleep(0.1)
                else:
                    return

    def log(self) -> str:
        return self._log.read_text()

    def end(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=180)


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


async def test_answered_deliveries_survive_a_kill(tmp_path):
    """Sync invariants 1 and 2."""
    inbox = {"GATEWAY_INBOX": str(tmp_path / "inbox.sqlite")}
    away = _free_port()
    gateway = Process(tmp_path, away, **inbox)
    await gateway.up()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}") as client:

        async def push(number: int) -> int:
            body = github_push(repo=f"acme/r{number % 3}", n=number)
            headers = signed(body, delivery=str(number))
            return (await client.post("/webhooks/file", content=body, headers=headers)).status_code

        statuses = await asyncio.gather(*(push(number) for number in range(60)))
    assert statuses == [202] * 60
    gateway.end()

    orchestrator = Orchestrator()
    async with serving(orchestrator, port=away):
        again = Process(tmp_path, away, **inbox)
        await again.up()
        await until(lambda: len(orchestrator.tasks) == 60, 30)
        assert again.end(signal.SIGTERM) == 0
    assert {call.delivery_id for call in orchestrator.calls} == {str(n) for n in range(60)}


@pytest.mark.timed
async def test_a_stop_ends_with_0_and_a_bad_bundle_with_78(tmp_path):
    """Sync invariant 26."""
    gateway = Process(tmp_path, 1)
    await gateway.up()
    taken = Process(tmp_path, 1, GATEWAY_ADDR=f"127.0.0.1:{gateway.port}")
    assert await asyncio.to_thread(taken.process.wait, 30) == 69
    assert "cannot listen on" in taken.log()
    started = time.monotonic()
    assert await asyncio.to_thread(gateway.end, signal.SIGTERM) == 0
    assert time.monotonic() - started < 25
    lines = [json.loads(line) for line in gateway.log().splitlines()]
    assert {"ts", "level", "logger", "event", "message"} <= set(lines[0])
    for variables, expected in (
        ({"HOOK_SECRET": ""}, "HOOK_SECRET is not set"),
        ({"APP_ENV": "production"}, "GATEWAY_TLS_CERT and GATEWAY_TLS_KEY"),
        ({"CONFIG_PATH": "/nowhere.cue"}, "/nowhere.cue"),
    ):
        refused = Process(tmp_path, 1, **variables)
        assert await asyncio.to_thread(refused.process.wait, 30) == 78
        assert expected in refused.log()


async def test_a_header_that_dribbles_is_cut_off(monkeypatch):
    from sync_stack.gateway import protocol
    from tests.sync.gateway.world import raw

    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.3)
    async with world() as gw:
        came = await raw(gw.port, b"POST /webhooks/mongo HTTP/1.1\r\n")
        assert came.startswith(b"HTTP/1.1 400 ")
        assert await raw(gw.port) == b""


async def test_a_body_that_dribbles_is_cut_off(monkeypatch):
    from sync_stack.gateway import requests
    from tests.sync.gateway.world import raw

    monkeypatch.setattr(requests, "BODY_TIMEOUT_S", 0.3)
    async with world(bundle(gateway=limits(rate_global=Rate(rate=9, burst=9)))) as gw:
        headers = {**signed(b"{}"), "Content-Length": "100", "Connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        came = await raw(gw.port, f"POST /webhooks/mongo HTTP/1.1\r\n{head}\r\n{{".encode())
        assert b"GW_BODY_READ_FAILED" in came
