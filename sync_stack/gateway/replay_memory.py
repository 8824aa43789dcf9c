"""Replay records of this process: bounded, with expiry, and with waiters."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import Final

MAX_RECORDS: Final = 1_000_000
_STALE_SHARE: Final = 2


class Found(IntEnum):
    """What a claim met: nothing (it is ours now), another's reservation, a finished delivery."""

    NONE = 0
    RESERVED = 1
    ACCEPTED = 2


@dataclass(slots=True, eq=False)
class _Record:
    """What one delivery claimed; all its keys come and go together."""

    keys: Sequence[str]
    owner: str  # empty: accepted
    expires: float


class MemoryReplay:
    """Claims are all or none. Use from one event loop."""

    def __init__(self, clock: Callable[[], float], *, max_records: int = MAX_RECORDS) -> None:
        self._clock = clock
        self._max = max_records
        self._records: dict[str, _Record] = {}
        self._expiries: list[tuple[float, int, _Record]] = []
        self._numbers = count()  # so that equal expiries compare
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def claim(self, keys: Sequence[str], owner: str, lifetime_s: float) -> Found:
        now = self._clock()
        while self._expiries and self._expiries[0][0] <= now:
            self._drop_earliest()
        found = Found.NONE
        for key in keys:
            met = self._records.get(key)
            if met is not None and not met.owner:
                return Found.ACCEPTED
            if met is not None and met.owner != owner:
                found = Found.RESERVED
        if found is Found.NONE:
            self._put(_Record(keys, owner, now + lifetime_s))
        return found

    def accept(self, keys: Sequence[str], owner: str, window_s: float) -> None:
        """What this owner reserved counts as delivered for the window."""
        record = self._owned(keys, owner)
        if record is not None:
            record.owner, record.expires = "", self._clock() + window_s
            self._put(record)
            self._wake(keys)

    def release(self, keys: Sequence[str], owner: str) -> None:
        """Delete what this owner reserved."""
        record = self._owned(keys, owner)
        if record is not None:
            self._drop(record)
            self._wake(keys)

    async def changed(self, keys: Sequence[str], timeout_s: float) -> None:
        """Wait until one of the records ends or the time is over."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, set()).add(future)
        try:
            await asyncio.wait((future,), timeout=timeout_s)
        finally:
            for key in keys:
                self._stop_waiting(key, future)

    def _owned(self, keys: Sequence[str], owner: str) -> _Record | None:
        """The record of these keys if this owner reserved it; any of them leads to it."""
        record = self._records.get(keys[0])
        return record if record is not None and record.owner == owner else None

    def _put(self, record: _Record) -> None:
        for key in record.keys:
            self._records[key] = record
        heapq.heappush(self._expiries, (record.expires, next(self._numbers), record))
        while len(self._records) > self._max:
            self._drop_earliest()
        if len(self._expiries) > _STALE_SHARE * len(self._records) + 1024:
            live = set(self._records.values())
            self._expiries = [(each.expires, next(self._numbers), each) for each in live]
            heapq.heapify(self._expiries)

    def _drop_earliest(self) -> None:
        """Take the first expiry off; its record goes too unless it was prolonged since."""
        expires, _number, record = heapq.heappop(self._expiries)
        if record.expires == expires:
            self._drop(record)

    def _drop(self, record: _Record) -> None:
        """Take its keys away, as far as no later record has them."""
        for key in record.keys:
            if self._records.get(key) is record:
                del self._records[key]

    def _wake(self, keys: Sequence[str]) -> None:
        for key in keys:
            for future in self._waiting.get(key, ()):
                if not future.done():
                    future.set_result(None)

    def _stop_waiting(self, key: str, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[key]
