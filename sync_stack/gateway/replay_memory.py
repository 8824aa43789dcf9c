"""Replay records of this process: bounded, with expiry, and with waiters."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MAX_RECORDS: Final = 1_000_000
_STALE_SHARE: Final = 2


class Found(IntEnum):
    """What a claim met: nothing (it is ours now), another's reservation, a finished delivery."""

    NONE = 0
    RESERVED = 1
    ACCEPTED = 2


@dataclass(slots=True)
class _Record:
    owner: str  # empty: accepted
    expires: float


class MemoryReplay:
    """Claims are all or none. Use from one event loop."""

    def __init__(self, clock: Callable[[], float], *, max_records: int = MAX_RECORDS) -> None:
        self._clock = clock
        self._max = max_records
        self._records: dict[str, _Record] = {}
        self._expiries: list[tuple[float, str]] = []
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def claim(self, keys: Sequence[str], owner: str, lifetime_s: float) -> Found:
        self._expire()
        met = [record for key in keys if (record := self._records.get(key)) is not None]
        if any(not record.owner for record in met):
            return Found.ACCEPTED
        if any(record.owner != owner for record in met):
            return Found.RESERVED
        self._put(keys, owner, lifetime_s)
        return Found.NONE

    def accept(self, keys: Sequence[str], owner: str, window_s: float) -> None:
        """What this owner reserved counts as delivered for the window."""
        mine = [key for key in keys if self._is_owned(key, owner)]
        self._put(mine, "", window_s)
        self._wake(mine)

    def release(self, keys: Sequence[str], owner: str) -> None:
        """Delete what this owner reserved."""
        mine = [key for key in keys if self._is_owned(key, owner)]
        for key in mine:
            del self._records[key]
        self._wake(mine)

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

    def _is_owned(self, key: str, owner: str) -> bool:
        record = self._records.get(key)
        return record is not None and record.owner == owner

    def _put(self, keys: Sequence[str], owner: str, lifetime_s: float) -> None:
        expires = self._clock() + lifetime_s
        for key in keys:
            self._records[key] = _Record(owner, expires)
            heapq.heappush(self._expiries, (expires, key))
        while len(self._records) > self._max:
            self._drop_earliest()
        if len(self._expiries) > _STALE_SHARE * len(self._records) + 1024:
            self._expiries = [(record.expires, key) for key, record in self._records.items()]
            heapq.heapify(self._expiries)

    def _expire(self) -> None:
        now = self._clock()
        while self._expiries and self._expiries[0][0] <= now:
            self._drop_earliest()

    def _drop_earliest(self) -> None:
        """Take the first expiry off; its record goes too unless it was prolonged since."""
        expires, key = heapq.heappop(self._expiries)
        record = self._records.get(key)
        if record is not None and record.expires == expires:
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
