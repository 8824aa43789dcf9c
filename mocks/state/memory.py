"""Records and counters in the memory of this process, and the bounds of every state of mocks.

No method suspends; all are thread-safe (reference: control-plane 18.5).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kernel import clock
from kernel.errors import PlatformError
from mocks.model.ports import Counter, StateRecord

MAX_RECORD_BYTES: Final = 64 * 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLimits:
    """Beyond `records` and `bytes` of a space, the least recently changed record goes first.

    A space that nobody asked for `idle_s` is forgotten. In the memory of a process, so are the
    least recently changed spaces beyond `spaces` and `total_bytes`.
    """

    records: int = 10_000
    bytes: int = 64 * 2**20
    spaces: int = 10_000
    total_bytes: int = 256 * 2**20
    idle_s: float = 24 * 3600.0


class RecordTooLarge(PlatformError):
    code = "payload_too_large"


def record_size(key: str, fields: Mapping[str, str]) -> int:
    """Return the size of a record in bytes; raise RecordTooLarge."""
    size = len(key) + sum(len(name) + len(value) for name, value in fields.items())
    if size * 4 > MAX_RECORD_BYTES:  # characters may have four bytes
        size = len(key.encode(errors="replace")) + sum(
            len(name.encode(errors="replace")) + len(value.encode(errors="replace"))
            for name, value in fields.items()
        )
        if size > MAX_RECORD_BYTES:
            raise RecordTooLarge(f"a state record has at most {MAX_RECORD_BYTES} bytes")
    return size


@dataclass(slots=True)
class _Space:
    """`records` in the order of their changes; `floor`: no new record has a version up to it.

    A key that was removed and made again would otherwise have the version that somebody read
    before. `resets`: the last reset of each surface that was applied here, "" for the whole space.
    """

    records: OrderedDict[str, StateRecord] = field(default_factory=OrderedDict)
    counters: dict[tuple[str, str], int] = field(default_factory=dict)
    resets: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    floor: int = 0
    used_at: float = 0.0

    def remove(self, key: str) -> None:
        record = self.records.pop(key)
        self.bytes -= record_size(key, record.fields)
        self.floor = max(self.floor, record.version)


class MemoryState:
    waits = False

    def __init__(
        self, limits: StateLimits | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits or StateLimits()
        self._monotonic = monotonic
        self._bytes = 0  # of all spaces
        self._lock = threading.Lock()
        self._spaces: OrderedDict[str, _Space] = OrderedDict()  # the least recently changed first

    async def read(self, space: str, key: str) -> StateRecord | None:
        found = self._spaces.get(space)
        if found is None or self._is_idle(found):
            return None
        found.used_at = self._monotonic()
        return found.records.get(key)

    async def change(
        self,
        space: str,
        key: str,
        surface_id: str,
        *,
        version: int,
        fields: Mapping[str, str] | None,
    ) -> bool:
        size = 0 if fields is None else record_size(key, fields)
        with self._lock:
            kept = self._enter(space)
            before = kept.records.get(key)
            if (before.version if before else 0) != version:
                return False
            bytes_before = kept.bytes
            if fields is None:
                if before:
                    kept.remove(key)
                self._bytes += kept.bytes - bytes_before
                return True
            if before:
                kept.bytes -= record_size(key, before.fields)
            kept.records[key] = StateRecord(
                key=key,
                surface_id=before.surface_id if before else surface_id,
                fields=dict(fields),
                version=(before.version if before else kept.floor) + 1,
                updated_at=clock.now(),
            )
            kept.records.move_to_end(key)
            kept.bytes += size
            self._drop_excess(kept)
            self._bytes += kept.bytes - bytes_before
            while self._bytes > self._limits.total_bytes and len(self._spaces) > 1:
                self._drop(next(iter(self._spaces)))
            return True

    async def draw(self, space: str, surface_id: str, operation_id: str) -> int:
        with self._lock:
            counters = self._enter(space).counters
            value = counters.get((surface_id, operation_id), 0)
            counters[surface_id, operation_id] = value + 1
            return value

    async def records(self, space: str, *, key: str = "") -> Sequence[StateRecord]:
        with self._lock:
            found = self._spaces.get(space)
            if found is None or self._is_idle(found):
                return []
            return [found.records[each] for each in sorted(found.records) if key in ("", each)]

    async def counters(self, space: str) -> Sequence[Counter]:
        with self._lock:
            found = self._spaces.get(space)
            if found is None or self._is_idle(found):
                return []
            return [
                Counter(surface_id=surface_id, operation_id=operation_id, value=value)
                for (surface_id, operation_id), value in sorted(found.counters.items())
            ]

    async def reset(self, space: str, *, surface_id: str = "", key: str = "") -> int:
        with self._lock:
            found = self._spaces.get(space)
            return 0 if found is None else self._empty(found, surface_id, key)

    def apply_resets(self, space: str, resets: Mapping[str, int]) -> bool:
        """Empty surfaces ("": the whole space) whose number of resets is new here."""
        with self._lock:
            kept = self._enter(space)
            for surface_id, number in resets.items():
                if kept.resets.get(surface_id, 0) < number:
                    kept.resets[surface_id] = number
                    self._empty(kept, surface_id, "")
        return True

    def clear(self) -> None:
        """Forget everything but the numbers of resets."""
        with self._lock:
            for space in self._spaces.values():
                self._empty(space, "", "")

    def forget(self, space: str) -> None:
        with self._lock:
            if space in self._spaces:
                self._drop(space)

    def _drop(self, space: str) -> None:
        self._bytes -= self._spaces.pop(space).bytes

    def _empty(self, space: _Space, surface_id: str, key: str) -> int:
        bytes_before = space.bytes
        removed = _empty(space, surface_id, key)
        self._bytes += space.bytes - bytes_before
        return removed

    def _enter(self, space: str) -> _Space:
        now = self._monotonic()
        found = self._spaces.get(space)
        if found is None or self._is_idle(found):
            self._drop_idle()
            if found is not None and space in self._spaces:
                self._drop(space)
            found = self._spaces[space] = _Space()
        self._spaces.move_to_end(space)
        found.used_at = now
        return found

    def _is_idle(self, space: _Space) -> bool:
        return self._monotonic() - space.used_at > self._limits.idle_s

    def _drop_idle(self) -> None:
        while self._spaces:
            oldest = next(iter(self._spaces))
            if len(self._spaces) < self._limits.spaces and not self._is_idle(self._spaces[oldest]):
                return
            self._drop(oldest)

    def _drop_excess(self, space: _Space) -> None:
        while len(space.records) > 1 and (
            len(space.records) > self._limits.records or space.bytes > self._limits.bytes
        ):
            space.remove(next(iter(space.records)))


def _empty(space: _Space, surface_id: str, key: str) -> int:
    keys = [
        each
        for each, record in space.records.items()
        if key in ("", each) and surface_id in ("", record.surface_id)
    ]
    for each in keys:
        space.remove(each)
    if key:
        return len(keys)
    drawn = [each for each in space.counters if surface_id in ("", each[0])]
    for each_drawn in drawn:
        del space.counters[each_drawn]
    if not surface_id:
        space.floor = 0
    return len(keys) + len(drawn)
