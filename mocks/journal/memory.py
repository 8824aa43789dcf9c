"""The newest calls of spaces in the memory of this process. It is thread-safe."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from mocks.journal.entries import MAX_ENTRIES, Mask, NotedCall, entry_of, tag_of
from mocks.model.calls import JournalEntry

MAX_CALLS: Final = 50_000  # of all spaces
MAX_BYTES: Final = 32 * 2**20  # of the bodies and headers of all spaces
_HEAVY_BYTES: Final = 512  # smaller bodies are not counted
_USUAL_HEAD: Final = 2_048  # nor paths and headers that are smaller
Noted = NotedCall | JournalEntry


class _Ring:
    """The calls of a space; `sizes` are those of heavy ones, 0 of others."""

    __slots__ = ("bytes", "calls", "sizes")

    def __init__(self) -> None:
        self.calls: deque[Noted] = deque()
        self.sizes: deque[int] = deque()
        self.bytes = 0

    def add(self, call: Noted, size: int) -> None:
        self.calls.append(call)
        self.sizes.append(size)
        self.bytes += size


class MemoryJournal:
    """A ring of 1,000 calls a space; of all spaces together, the longest unused lose theirs."""

    def __init__(
        self,
        mask: Mask = str,
        *,
        most_calls: int = MAX_CALLS,
        most_bytes: int = MAX_BYTES,
    ) -> None:
        self._mask = mask
        self._most_calls = most_calls
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._rings: OrderedDict[str, _Ring] = OrderedDict()
        self._calls = 0
        self._bytes = 0
        self._prefix = secrets.token_hex(5)
        self._number = 0

    def next_id(self) -> str:
        """Return an id that no other call has, here or in another process."""
        self._number += 1
        return f"{self._prefix}{self._number:x}"

    def add(self, space: str, entry: Noted) -> None:
        """Keep a call; its body must be cut already."""
        size = _size(entry)
        with self._lock:
            ring = self._rings.get(space)
            if ring is None:
                ring = self._rings[space] = _Ring()
            ring.add(entry, size)
            if len(ring.calls) > MAX_ENTRIES:
                self._drop_oldest(ring)
            self._calls += 1
            self._bytes += size
            if self._calls > self._most_calls or self._bytes > self._most_bytes:
                self._drop_excess(space)

    async def entries(self, space: str) -> Sequence[JournalEntry]:
        return self.newest(space)

    def newest(self, space: str) -> list[JournalEntry]:
        """Return the calls, the newest first."""
        with self._lock:
            ring = self._rings.get(space)
            calls = list(ring.calls) if ring else []
        return [self.entry(call) for call in reversed(calls)]

    def entry(self, call: Noted) -> JournalEntry:
        return call if isinstance(call, JournalEntry) else entry_of(call, self._mask)

    async def clear(
        self, space: str, *, surface_id: str = "", operation_id: str = "", tag: str = ""
    ) -> int:
        """Forget the calls that have what is not empty; return how many."""
        with self._lock:
            ring = self._rings.get(space)
            if ring is None:
                return 0
            kept = [call for call in ring.calls if not is_of(call, surface_id, operation_id, tag)]
            removed = len(ring.calls) - len(kept)
            self._forget(space)
            if kept:
                new = self._rings[space] = _Ring()
                for call in kept:
                    new.add(call, _size(call))
                self._calls += len(kept)
                self._bytes += new.bytes
            return removed

    def forget(self, space: str) -> None:
        with self._lock:
            self._forget(space)

    def take_all(self) -> dict[str, list[Noted]]:
        """Remove and return all calls by space, the oldest first."""
        with self._lock:
            rings, self._rings = self._rings, OrderedDict()
            self._calls = self._bytes = 0
        return {space: list(ring.calls) for space, ring in rings.items()}

    def _forget(self, space: str) -> None:
        ring = self._rings.pop(space, None)
        if ring is not None:
            self._calls -= len(ring.calls)
            self._bytes -= ring.bytes

    def _drop_oldest(self, ring: _Ring) -> None:
        ring.calls.popleft()
        size = ring.sizes.popleft()
        ring.bytes -= size
        self._calls -= 1
        self._bytes -= size

    def _drop_excess(self, used: str) -> None:
        """Drop the calls of the space that came first, then the oldest of the one in use."""
        self._rings.move_to_end(used)
        while self._calls > self._most_calls or self._bytes > self._most_bytes:
            first = next(iter(self._rings))
            if first != used:
                self._forget(first)
            elif len(self._rings[used].calls) > 1:
                self._drop_oldest(self._rings[used])
            else:
                return


def is_of(call: Noted, surface_id: str, operation_id: str, tag: str) -> bool:
    """Return whether a call has what is not empty."""
    return (
        surface_id in ("", call.surface_id)
        and operation_id in ("", call.operation_id)
        and (not tag or tag == (tag_of(call) if isinstance(call, NotedCall) else call.tag))
    )


def _size(call: Noted) -> int:
    """Return the bytes that a heavy call takes, apart from what every call does; 0 of others."""
    if isinstance(call, NotedCall):
        body, path, query, headers = call.body, call.path, call.query, call.headers
        head = len(path) + len(query)
        for name, value in headers:
            head += len(name) + len(value)
        size = len(body) + (head if head > _USUAL_HEAD else 0)
    else:
        size = len(call.request_body)
    return size if size > _HEAVY_BYTES else 0
