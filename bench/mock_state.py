"""`python -m bench mock_state [--quick]`: what a call costs whose state is in Redis.

The same calls with the state in memory, and the least that asking Redis twice costs, in turns.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import redis

from bench import mock_plane
from bench.mock_api import ID, Request
from bench.mock_load import CONNECTIONS, memory_mb
from bench.mock_servers import Server
from bench.mocks import OPERATIONS, UVICORN, Row
from bench.report import end_in_order, is_quick, publish
from mocks.redis_link import RedisLink
from mocks.state.redis import RedisState
from tests.support.servers import own_redis

ROUNDS: Final = 2 if is_quick() else 5
SECONDS: Final = 1 if is_quick() else 4
ASKED: Final = 3_000
WARM: Final = 500 if is_quick() else 20_000  # ids: twice as many as records are kept
DISTINCT: Final = 500 if is_quick() else 100_000
_AT_ONCE: Final = 50
COLUMNS: Final = (
    "what", "CPU µs each", "calls/s", "p50 ms", "p99 ms", "MB after load", "MB more, 100,000 ids",
)  # fmt: skip
GOAL_US: Final = 120
FLAT_MB: Final = 10
_GET: Final = b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n"


def _server(name: str, folder: Path, address: str) -> Server:
    requests = mock_plane.requests("stateful", OPERATIONS, 1)
    environment = {**mock_plane.settings("stateful", OPERATIONS, 1), "REDIS": address}
    command = [*UVICORN, "bench.mock_plane:application", "--port"]
    return Server(name, name, requests, lambda port: [*command, str(port)], folder, environment)


@contextmanager
def _started(servers: list[Server]) -> Iterator[None]:
    try:
        for server in servers:
            server.start()
            server.check()
            server.warm_up()
        yield
    finally:
        for server in servers:
            server.stop()


def _send_distinct(server: Server, calls: int) -> None:
    """Send calls that each change the state of another id, 50 at once on one connection."""
    request = next(each for each in server.requests if each.body and ID in each.path)
    with socket.create_connection(("127.0.0.1", server.port)) as talking:
        for first in range(1, calls + 1, _AT_ONCE):
            talking.sendall(b"".join(_raw(request, first + at) for at in range(_AT_ONCE)))
            received = b""
            while received.count(b"HTTP/1.1 2") < _AT_ONCE or not received.endswith(b"}"):
                received += talking.recv(1_000_000)


def _raw(request: Request, number: int) -> bytes:
    headers = {"Host": "a", "Content-Length": str(len(request.body)), **request.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    path = request.path.replace(ID, f"{number}00000")
    return f"{request.method} {path} HTTP/1.1\r\n{lines}\r\n{request.body}".encode()


def _grown_mb(server: Server) -> float:
    """Return how much more memory a server has after DISTINCT ids than after WARM ones."""
    process = psutil.Process(server.process.pid)
    _send_distinct(server, WARM)
    before = memory_mb(process)
    _send_distinct(server, DISTINCT)
    return memory_mb(process) - before


def _cpu_us(ask: Callable[[], object]) -> float:
    """Return the CPU time of asking, for each of ASKED."""
    begun = time.process_time()
    ask()
    return (time.process_time() - begun) / ASKED * 1e6


def _floors(address: str) -> dict[str, Callable[[], object]]:
    host, port = address.split(":")
    client = redis.Redis(host, int(port))
    client.set("x", "x" * 60)
    raw = socket.create_connection((host, int(port)))

    def get() -> None:
        for _ in range(ASKED):
            client.get("x")

    def get_raw() -> None:
        for _ in range(ASKED):
            raw.sendall(_GET)
            raw.recv(4096)

    return {
        "GET over a bare socket": get_raw,
        "GET by redis-py": get,
        "read and change, one after the other": lambda: asyncio.run(_change(address, 1)),
        f"read and change, {CONNECTIONS} at once": lambda: asyncio.run(
            _change(address, CONNECTIONS)
        ),
    }


async def _change(address: str, at_once: int) -> None:
    """Read records and change them, as a call with a transition does."""
    link = RedisLink(f"redis://{address}/0")
    state = RedisState(link)

    async def change(key: str) -> None:
        for _ in range(ASKED // at_once):
            found = await state.read("s", key)
            fields = dict(found.fields) if found else {}
            fields["n"] = str(int(fields.get("n", "0")) + 1)
            version = found.version if found else 0
            assert await state.change("s", key, "a", version=version, fields=fields)

    await asyncio.gather(*(change(f"k{number}") for number in range(at_once)))
    await link.close()


def measured(folder: Path) -> tuple[list[list[object]], float, float]:
    """Return the rows, the CPU µs of a call with its state in Redis, and the MB of growth."""
    with own_redis(folder) as address:
        servers = [
            _server("call, state in memory", folder / "memory", ""),
            _server("call, state in Redis", folder / "shared", address),
        ]
        floors = _floors(address)
        turns: dict[str, list[float]] = {name: [] for name in floors}
        with _started(servers):
            for _ in range(ROUNDS):
                for server in servers:
                    server.turn(SECONDS)
                for name, ask in floors.items():
                    turns[name].append(_cpu_us(ask))
            grown = [_grown_mb(server) for server in servers]
    rows: list[list[object]] = [
        [name, round(statistics.median(costs), 1), "", "", "", "", ""]
        for name, costs in turns.items()
    ]
    found = [Row.of(server) for server in servers]
    rows += [
        [each.server, round(each.cpu_us, 1), f"{each.rate:,.0f}", each.p50_ms, each.p99_ms,
         f"{each.memory_mb:.0f}", f"{more:+.1f}"]
        for each, more in zip(found, grown, strict=True)
    ]  # fmt: skip
    return rows, found[-1].cpu_us, max(grown)


def main() -> None:
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        rows, cost_us, grown_mb = measured(Path(folder))
    publish(
        "mock_state",
        f"Calls that match, render and change state, as `bench mocks` has them: one process on one "
        f"core, wrk with {CONNECTIONS} connections on the other; Redis is on both. CPU of the "
        f"server's process, or of the asking one. Turns of {SECONDS} s or {ASKED:,} commands; "
        f"medians of {ROUNDS}.",
        COLUMNS,
        rows,
        f"A call with its state in Redis: {cost_us:.0f} µs (goal {GOAL_US}): "
        f"{'met' if cost_us <= GOAL_US else 'MISSED'}; memory flat over {DISTINCT:,} ids: "
        f"{'met' if grown_mb < FLAT_MB else 'MISSED'}.",
    )


if __name__ == "__main__":
    main()
