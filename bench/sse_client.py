"""Many followers in one process that do next to nothing per byte: they count and take samples.

Each log line holds one `~` and `"t":<nanoseconds of the monotonic clock>`; on one machine all
processes share that clock.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import cast

MARK = b"~"
_STAMP = re.compile(rb'"t\\?":(\d{12,20})')
_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)


@dataclass
class Tally:
    """Of all followers together, while `measuring`."""

    measuring: bool = False
    delivered: int = 0
    latencies_ms: list[float] = field(default_factory=list)


class Follower(asyncio.Protocol):
    """Sends one GET and counts the marks of what comes; the first of a read gives a latency."""

    def __init__(self, request: bytes, tally: Tally, *, keep: bool) -> None:
        self._request = request
        self._tally = tally
        self.lines = 0
        self.kept = bytearray() if keep else None
        self.connected = asyncio.get_running_loop().create_future()
        self.lost = False
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by type
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.connected.done():
            self._begin(data)
        count = data.count(MARK)
        self.lines += count
        if self.kept is not None:
            self.kept += data
        if self._tally.measuring:
            self._tally.delivered += count
            if stamp := _STAMP.search(data):
                age_ns = time.monotonic_ns() - int(stamp[1])
                self._tally.latencies_ms.append(age_ns / 1e6)

    def _begin(self, data: bytes) -> None:
        self._head += data
        if not self._head.startswith(b"HTTP/1.1 200"):
            self.connected.set_exception(RuntimeError(self._head[:500].decode(errors="replace")))
        elif b": connected" in self._head:
            self.connected.set_result(None)
            self._head = b""

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def ids(self) -> list[int]:
        """Of a follower that kept everything: the numbers it got, in order."""
        body = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", bytes(self.kept or b""))
        return [int(number) for number in _ID.findall(body)]


async def connect(
    port: int, request: bytes, tally: Tally, *, count: int, kept: int
) -> list[Follower]:
    """`count` followers, 50 at a time, each seen to be connected; the first `kept` keep all."""
    followers: list[Follower] = []
    for start in range(0, count, 50):
        some = [
            await _connected(port, Follower(request, tally, keep=n < kept))
            for n in range(start, min(count, start + 50))
        ]
        await asyncio.wait_for(asyncio.gather(*(f.connected for f in some)), 60)
        followers += some
    return followers


async def _connected(port: int, follower: Follower) -> Follower:
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: follower, "127.0.0.1", port)
    return follower


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0
