"""Signed push webhooks of GitHub, sent over connections that stay open."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

from tests.support.webhooks import github_examples

SECRET = "bench-secret"
_ACCEPTED = {b"200", b"202"}  # `webhook` says 200
_numbers = itertools.count(time.time_ns() // 1000)  # no delivery id comes twice


@dataclass
class Tally:
    latencies: list[float] = field(default_factory=list)
    failed: int = 0

    def quantile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def push_of(size: int) -> bytes:
    """A real push of GitHub, without its last brace, with more commits until it is that large."""
    payload = next(
        example for name, example in github_examples() if name == "push" and example["commits"]
    )
    first = payload["commits"][0]
    commits: list[dict[str, Any]] = []
    while True:
        payload = payload | {"commits": commits}
        body = json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
        if len(body) >= size:
            return body[:-1]
        commits.append(_commit(first, len(commits)))


def _commit(like: dict[str, Any], number: int) -> dict[str, Any]:
    name = hashlib.sha1(b"%d" % number, usedforsecurity=False).hexdigest()
    return like | {
        "id": name,
        "tree_id": name[::-1],
        "message": f"Settings of service {number}",
        "url": like["url"].rpartition("/")[0] + f"/{name}",
        "added": [f"services/{number}/config.yaml"] if number % 3 == 0 else [],
        "modified": [f"services/{number}/{part}.yaml" for part in ("app", "limits")],
    }


class Sender:
    """Requests that differ in their last digits only, so that signing them costs little."""

    def __init__(self, port: int, path: str, size: int) -> None:
        self._port, self._path = port, path
        self._head = push_of(size) + b',"n":"'
        self._signed = hmac.new(SECRET.encode(), self._head, hashlib.sha256)

    async def flat_out(self, seconds: float, connections: int) -> Tally:
        """Each connection sends the next request when it has its answer."""
        tally = Tally()
        until = time.perf_counter() + seconds

        async def one() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            while time.perf_counter() < until:
                await self._exchange(reader, writer, time.perf_counter(), tally)
            writer.close()

        await asyncio.gather(*(one() for _ in range(connections)))
        return tally

    async def paced(self, seconds: float, rate: float, connections: int) -> Tally:
        """So many a second, whatever the answers take; the time in line counts too."""
        tally = Tally()
        due: asyncio.Queue[float | None] = asyncio.Queue()

        async def one() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            while (at := await due.get()) is not None:
                await self._exchange(reader, writer, at, tally)
            writer.close()

        running = asyncio.gather(*(one() for _ in range(connections)))
        started = time.perf_counter()
        for number in range(int(seconds * rate)):
            at = started + number / rate
            if (early := at - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            due.put_nowait(at)
        for _ in range(connections):
            due.put_nowait(None)
        await running
        return tally

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        started: float,
        tally: Tally,
    ) -> None:
        writer.write(self._request())
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length or 0))
        tally.latencies.append(time.perf_counter() - started)
        tally.failed += head[9:12] not in _ACCEPTED

    def _request(self) -> bytes:
        number = next(_numbers)
        tail = b'%020d"}' % number
        proof = self._signed.copy()
        proof.update(tail)
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: GitHub-Hookshot/044aadd\r\n"
            f"Accept: */*\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\n"
            f"X-GitHub-Delivery: {number}\r\nX-GitHub-Hook-ID: 292430182\r\n"
            f"X-Hub-Signature-256: sha256={proof.hexdigest()}\r\n"
            f"Content-Length: {len(self._head) + len(tail)}\r\n\r\n"
        )
        return b"".join((head.encode(), self._head, tail))
