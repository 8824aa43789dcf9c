"""Mocks as uvicorn serves them: real processes, real Redis, kill -9 (reference: control-plane 18).

Invariant 29: no increment is lost. Invariant 34: without Redis each process serves from memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import servers
from tests.support.files import write_files
from tests.support.mock_planes import files
from tests.support.processes import Process, until
from tests.support.store_templates import copy_sqlite_store

pytestmark = pytest.mark.slow
REST = "/mocks/rest/orders/orders"
SECRET = "a-secret-of-mocks"
SUITE = 'service.mock("api")\n'


class Servers:
    """Web processes over one store and one folder of suites."""

    def __init__(self, folder: Path, *, redis: str = "", **more: str) -> None:
        self.folder, self.suites = folder, folder / "suites"
        write_files(self.suites / "orders", files())
        (self.suites / "orders" / "suite.star").write_text(SUITE)
        self.environment = {
            "PATH": os.environ["PATH"],
            "DJANGO_SETTINGS_MODULE": "platform_site.settings.production",
            "DB_DRIVER": "sqlite",
            "DATA_DIR": str(folder),
            "SUITES_DIR": str(self.suites),
            "JWT_SECRET": "a-secret-for-this-test-0123456789-abcdef",
            "PUBLIC_API_URL": "http://partita.test",
            "REDIS_ADDR": redis,
            "REDIS_PREFIX": f"test-{folder.name}-{os.getpid()}",
            **more,
        }
        copy_sqlite_store(folder)

    @contextmanager
    def server(self, name: str) -> Iterator[tuple[str, Process]]:
        """Yield its address and its process."""
        port = servers.free_port()
        command = [
            *(sys.executable, "-m", "uvicorn", "platform_site.asgi:application"),
            *("--host", "127.0.0.1", "--port", str(port), "--no-proxy-headers"),
            *("--http", "kernel.http_protocol:ProblemProtocol", "--no-access-log"),
        ]
        process = Process(name, command, self.environment, self.folder / f"{name}.log")
        process.start()
        url = f"http://127.0.0.1:{port}"
        try:
            until(lambda: is_up(url), within_s=120, what=process.tail)
            yield url, process
        finally:
            process.end()


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def component(url: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{url}/readyz/{name}", timeout=10).json()
    return found


def count(url: str) -> int:
    """Return the state that the next order will see; it makes one."""
    return int(httpx.post(f"{url}{REST}/orders", json={}, timeout=10).json()["made"])


def test_mocks_of_a_real_server(tmp_path: Path) -> None:
    with ExitStack() as stack:
        world = Servers(tmp_path, MOCK_SHARED_SECRET=SECRET)
        url, process = stack.enter_context(world.server("one"))
        headers = {"X-Partita-Mock-Secret": SECRET}
        client = stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=30))
        assert httpx.get(f"{url}{REST}/orders").status_code == 401
        for _ in range(3):
            answer = client.get(f"{REST}/orders")
            assert (answer.status_code, answer.json()) == (200, [1, 2])
            assert answer.headers["content-security-policy"] == "sandbox"
        assert client.head(f"{REST}/orders").headers["content-length"] == "12"
        assert client.get("/mocks/ready/orders/pay").json()["operations"] == 1
        too_large = client.post(f"{REST}/orders", content=(b"x" * 2**20 for _ in range(12)))
        assert (too_large.status_code, too_large.json()["code"]) == (413, "payload_too_large")
        assert client.get("/mocks/rest/none/x/y").json()["code"] == "suite_not_found"
        assert client.get(f"{REST}/orders%2f1").json()["code"] == "operation_not_found"

        changed = tmp_path / "suites" / "orders" / "mock" / "orders" / "listOrders.yaml"
        changed.write_text("examples: {all: {response: {body: [3]}}}")
        until(lambda: client.get(f"{REST}/orders").json() == [3], within_s=30, each_s=0.05)
        changed.write_text("examples: {all: {response: {body: [4]}}}")
        assert client.get("/mocks/ready/orders/orders").status_code == 200
        assert client.get(f"{REST}/orders").json() == [4]
        process.stop()


@pytest.mark.redis
def test_a_killed_process_leaves_the_other_serving_and_the_state_whole(tmp_path: Path) -> None:
    """Invariant 29."""
    with ExitStack() as stack:
        redis = stack.enter_context(servers.own_redis(tmp_path))
        world = Servers(tmp_path, redis=redis)
        one, first = stack.enter_context(world.server("one"))
        two, _ = stack.enter_context(world.server("two"))
        acknowledged, sent = asyncio.run(load(one, two, kill=first))

        assert not first.running
        made = count(two)
        assert acknowledged <= made <= sent
        assert component(two, "cache")["status"] == "ready"


async def load(one: str, two: str, *, kill: Process) -> tuple[int, int]:
    """Make orders at both, kill -9 one in between; return how many were answered and were sent."""
    answered = sent = 0
    over = asyncio.Event()

    async def client(url: str) -> None:
        nonlocal answered, sent
        async with httpx.AsyncClient(base_url=url, timeout=10) as http:
            for _ in range(60):
                sent += 1
                try:
                    answer = await http.post(f"{REST}/orders", json={})
                except httpx.TransportError:
                    return
                assert answer.status_code == 201, answer.text
                answered += 1
                if answered >= 100 and not over.is_set():
                    over.set()
                    kill.send(signal.SIGKILL)

    await asyncio.gather(*(client(url) for url in (one, two) * 4))
    kill.wait(10)
    assert over.is_set()
    return answered, sent


@pytest.mark.redis
def test_without_redis_each_process_serves_from_memory_and_says_so(tmp_path: Path) -> None:
    """Invariant 34."""
    with ExitStack() as stack:
        redis_server = stack.enter_context(ExitStack())
        redis = redis_server.enter_context(servers.own_redis(tmp_path))
        world = Servers(tmp_path, redis=redis)
        one, _ = stack.enter_context(world.server("one"))
        two, _ = stack.enter_context(world.server("two"))
        assert [count(one), count(two), count(one)] == [0, 1, 2]
        redis_server.close()

        assert [count(one), count(one), count(two)] == [0, 1, 0]
        for url in (one, two):
            cache = until(partial(away, url), within_s=30)
            assert "each process keeps the state of mocks" in cache["detail"]
            assert httpx.get(f"{url}/readyz/cache").status_code == 200


def away(url: str) -> dict[str, Any] | None:
    found = component(url, "cache")
    return found if found["status"] == "degraded" else None


def test_two_processes_without_any_redis_say_that_they_have_state_apart(tmp_path: Path) -> None:
    world = Servers(tmp_path)
    with world.server("one") as (one, _):
        assert component(one, "cache")["status"] == "disabled"
        with world.server("two") as (two, second):
            for url in (one, two):
                cache = until(partial(away, url), within_s=30)
                assert cache["detail"].startswith("each of 2 control-plane processes")
            second.stop()
        until(lambda: component(one, "cache")["status"] == "disabled", within_s=30)
