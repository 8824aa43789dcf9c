"""Limits, counters and state of two processes on one Redis: exact while things fail.

Invariants 29 and 34, with calls that are checked against their contract (control-plane 18.5).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.integration.test_mock_servers import Servers, away, component
from tests.support import servers
from tests.support.files import write_files
from tests.support.fuzzed_mocks import LIMIT, files
from tests.support.packages import program
from tests.support.parts import give_up
from tests.support.processes import Process, until

pytestmark = [pytest.mark.slow, pytest.mark.redis]
SHOP = "/mocks/rest/fuzz/shop"
TOKEN = {"Authorization": "Bearer abc", "X-Tenant": "acme"}
ITEM = {"id": 1, "name": "Pen", "tags": ["paid"], "size": 2}
TOO_MANY = 429


@contextmanager
def redis_process(folder: Path) -> Iterator[tuple[str, Process]]:
    """Yield the address of a Redis, and its process."""
    if program("redis-server") is None:
        give_up("redis-server is not installed")
    port = servers.free_port()
    process = Process("redis", servers.redis_command(port) or [], {}, folder / "redis.log")
    process.start()
    try:
        until(lambda: servers.listens(port), within_s=30, what="Redis listens")
        yield f"127.0.0.1:{port}", process
    finally:
        process.end()


@contextmanager
def two_servers(folder: Path, redis: str, mode: str) -> Iterator[list[tuple[str, Process]]]:
    world = Servers(folder, redis=redis, MOCK_VALIDATE=mode)
    write_files(world.suites / "fuzz", files())
    (world.suites / "fuzz" / "suite.star").write_text('service.mock("api")\n')
    with ExitStack() as stack:
        yield [stack.enter_context(world.server(name)) for name in ("one", "two")]


@dataclass
class Load:
    """What clients sent and were answered; who is killed loses the answers on their way."""

    urls: Sequence[str]
    killed: Process | None = None
    sent: int = 0
    statuses: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    lost: int = 0

    async def run(self) -> None:
        await asyncio.gather(*(self._client(url) for url in (*self.urls,) * 4))

    async def _client(self, url: str) -> None:
        async with httpx.AsyncClient(base_url=f"{url}{SHOP}", timeout=20, headers=TOKEN) as http:
            for number in range(60):
                try:
                    await self._call(http, number)
                except httpx.TransportError:
                    assert self.killed, "no connection breaks by itself"
                    self.lost += 1
                    return
                if self.killed and self.killed.running and len(self.counts) > 120:
                    self.killed.send(signal.SIGKILL)

    async def _call(self, http: httpx.AsyncClient, number: int) -> None:
        limited = await http.get("/limited")
        self.statuses.append(limited.status_code)
        self.sent += 1
        paid = await http.post("/items", json=ITEM)
        assert paid.status_code == 201, paid.text
        self.counts.append(int(paid.json()["count"]))
        if number % 5 == 0:  # another item is changed, if at all
            wrong = await http.post("/items", json={**ITEM, "id": "2", "more": 1})
            assert wrong.status_code in (201, 422), wrong.text
            assert wrong.headers["x-partita-mock-contract"].startswith("invalid")
        self.turns.append((await http.get("/turns")).text)


def state_of(url: str, key: str) -> dict[str, str]:
    """Return what the next call sees of a record."""
    found: dict[str, str] = httpx.get(f"{url}{SHOP}/items/{key}", timeout=10).json()
    return found


@pytest.mark.parametrize("mode", ["warn", "enforce"])
def test_limits_counters_and_steps_are_exact_though_a_process_is_killed(
    tmp_path: Path, mode: str
) -> None:
    with redis_process(tmp_path) as (redis, _), two_servers(tmp_path, redis, mode) as both:
        (one, first), (two, _) = both
        load = Load([one, two], killed=first)
        asyncio.run(load.run())

        assert not first.running
        assert 0 < load.lost <= 4
        assert set(load.statuses) == {200, TOO_MANY}
        assert LIMIT - load.lost <= load.statuses.count(200) <= LIMIT
        assert httpx.get(f"{two}{SHOP}/limited").status_code == TOO_MANY

        assert len(set(load.counts)) == len(load.counts), "a number of a counter came twice"
        wrong = 0 if mode == "enforce" else len(load.turns)
        assert len(load.counts) <= max(load.counts) <= load.sent + wrong
        made = int(state_of(two, "1")["many"].partition('"n":"')[2].partition('"')[0])
        assert len(load.counts) <= made <= load.sent
        drawn = [load.turns.count(each) for each in "abc"]
        assert max(drawn) - min(drawn) <= 1 + load.lost


def limited_calls(url: str, count: int) -> list[int]:
    with httpx.Client(base_url=url, timeout=20) as http:
        return [http.get(f"{SHOP}/limited").status_code for _ in range(count)]


def is_shared(url: str) -> bool:
    """Return whether a process asks Redis again; what it counted itself is used up."""
    return component(url, "cache")["status"] == "ready" and limited_calls(url, 1) == [200]


@pytest.mark.parametrize("mode", ["warn", "enforce"])
def test_while_redis_stands_still_each_process_limits_by_itself_and_then_both_again(
    tmp_path: Path, mode: str
) -> None:
    with redis_process(tmp_path) as (redis, redis_server), two_servers(tmp_path, redis, mode) as at:
        (one, _), (two, _) = at
        assert limited_calls(one, LIMIT // 2) == [200] * (LIMIT // 2)
        redis_server.freeze()
        for url in (one, two):
            found = limited_calls(url, LIMIT + 5)
            assert set(found) == {200, TOO_MANY}
            assert found.count(200) == LIMIT
            load = Load([url])
            asyncio.run(load.run())
            assert load.lost == 0
            assert sorted(load.counts) == list(range(1, len(load.counts) + 1)) or mode == "warn"
            assert until(partial(away, url), within_s=30)
        redis_server.go_on()

        for url in (one, two):  # each asks again after a pause
            until(partial(is_shared, url), within_s=30)
        left = limited_calls(two, LIMIT)
        used = LIMIT - left.count(200)
        assert LIMIT // 2 + 2 <= used <= LIMIT // 2 + 40, "it counts on from before"
        assert limited_calls(one, 3) == [TOO_MANY] * 3
