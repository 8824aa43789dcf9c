"""The newest calls of spaces in Redis, for all processes.

A call is kept in memory first, and a thread sends what is new every GATHER_S: nobody waits for
Redis, and no more than 1,000 calls of a space wait at once. While it is away, they stay in memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, Final

from kernel.background import PeriodicThread, report_error
from kernel.redis_breaker import RedisUnavailable
from mocks.journal.entries import MAX_ENTRIES, Mask, decode_entry, encode_entry
from mocks.journal.memory import MemoryJournal, Noted, is_of
from mocks.model.calls import JournalEntry
from mocks.redis_link import RedisLink

GATHER_S: Final = 0.3
LIFE_MS: Final = 24 * 3_600_000
# ARGV: life in ms, most entries, then the entries, the oldest first.
_ADD: Final = """
for i = 3, #ARGV do redis.call('LPUSH', KEYS[1], ARGV[i]) end
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
"""
_READ: Final = "return redis.call('LRANGE', KEYS[1], 0, -1)"
# ARGV: the entries to remove, the newest first, as they are stored.
_REMOVE: Final = """
local removed = 0
for i = 1, #ARGV do removed = removed + redis.call('LREM', KEYS[1], 1, ARGV[i]) end
return removed
"""
_BATCH: Final = 200  # entries of a script


class RedisJournal:
    """`close` sends the rest and ends the thread, which starts with the first call."""

    def __init__(self, link: RedisLink, mask: Mask, *, gather_s: float = GATHER_S) -> None:
        self._link = link
        self._gather_s = gather_s
        self._waiting = MemoryJournal(mask)
        self._ended = threading.Event()
        self._sending = threading.Lock()
        self._thread: PeriodicThread | None = None

    def next_id(self) -> str:
        return self._waiting.next_id()

    def add(self, space: str, entry: Noted) -> None:
        self._waiting.add(space, entry)
        if self._thread is None:
            self._start()

    async def entries(self, space: str) -> Sequence[JournalEntry]:
        return await asyncio.to_thread(self.newest, space)

    def newest(self, space: str) -> list[JournalEntry]:
        """Return the calls of all processes, the newest first; those of this one without Redis."""
        waiting = self._waiting.newest(space)
        try:
            stored = self._link.run_from_thread(_READ, [self._key(space)], ())
        except RedisUnavailable:
            return waiting
        found = {entry.id: entry for entry in (*waiting, *map(decode_entry, stored))}
        newest = sorted(found.values(), key=lambda entry: entry.time, reverse=True)
        return newest[:MAX_ENTRIES]

    async def clear(
        self, space: str, *, surface_id: str = "", operation_id: str = "", tag: str = ""
    ) -> int:
        """Forget the calls that have what is not empty; return how many."""
        return await asyncio.to_thread(self._clear, space, surface_id, operation_id, tag)

    def _clear(self, space: str, surface_id: str, operation_id: str, tag: str) -> int:
        self.send()
        here = asyncio.run(
            self._waiting.clear(space, surface_id=surface_id, operation_id=operation_id, tag=tag)
        )
        try:
            stored = self._link.run_from_thread(_READ, [self._key(space)], ())
            chosen = [
                text for text in stored if is_of(decode_entry(text), surface_id, operation_id, tag)
            ]
            removed = 0
            for start in range(0, len(chosen), _BATCH):
                part = chosen[start : start + _BATCH]
                removed += self._link.run_from_thread(_REMOVE, [self._key(space)], part)
        except RedisUnavailable:
            return here
        return here + removed

    def send(self) -> None:
        """Send what is waiting; it goes on waiting while Redis is away."""
        with self._sending:
            waiting = self._waiting.take_all()
            for space in list(waiting):
                try:
                    self._store(space, waiting[space])
                except RedisUnavailable:
                    report_error(optional=True)
                    break
                del waiting[space]
            for space, calls in waiting.items():
                for call in calls:
                    self._waiting.add(space, call)

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(2)
            self._thread = None
        self.send()

    def _store(self, space: str, calls: list[Noted]) -> None:
        for start in range(0, len(calls), _BATCH):
            texts = [
                encode_entry(self._waiting.entry(call)) for call in calls[start : start + _BATCH]
            ]
            arguments: list[Any] = [LIFE_MS, MAX_ENTRIES, *texts]
            self._link.run_from_thread(_ADD, [self._key(space)], arguments)

    def _start(self) -> None:
        self._ended.clear()
        self._thread = PeriodicThread(
            "mock-journal",
            self.send,
            lambda: self._ended.wait(self._gather_s),
            ended=self._ended,
        )
        self._thread.start()

    def _key(self, space: str) -> str:
        return self._link.key("journal", space)
