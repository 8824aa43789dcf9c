"""A bounded queue with a thread that writes what is queued, in batches.

    writer = BackgroundWriter("audit", store, QueueLimits(items=10_000, batch_items=500))
    if not writer.put(record):
        count_dropped(1)

Callers of `put` never wait for the destination. A `write` that raises loses its batch; the thread
counts as a failing background loop (`kernel.background`) and goes on after a pause.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from kernel.background import BackgroundThread, one_cycle

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """The bounds of the queue and of a batch, which is written `gather_s` after its first item.

    A full batch is written at once. Bytes count only where the writer has a `size_of`.
    """

    items: float
    bytes: float = inf
    batch_items: int = 1
    batch_bytes: float = inf
    gather_s: float = 0.0


class BackgroundWriter(Generic[Item]):
    """Passes queued items to `write` on one thread, which starts with the first item.

    `after_failure` runs before the next batch, `at_end` when the thread ends.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[list[Item]], object],
        limits: QueueLimits,
        *,
        size_of: Callable[[Item], int] = lambda _item: 0,
        after_failure: Callable[[], object] | None = None,
        at_end: Callable[[], object] | None = None,
    ) -> None:
        self._name = name
        self._write = write
        self._limits = limits
        self._size_of = size_of
        self._after_failure = after_failure
        self._at_end = at_end
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._closing = False
        self._changed = threading.Condition()
        self._thread: BackgroundThread | None = None

    def put(self, item: Item) -> bool:
        """Queue an item without blocking; return False when the queue is full."""
        size = self._size_of(item)
        limits = self._limits
        with self._changed:
            if len(self._items) >= limits.items or self._bytes + size > limits.bytes:
                return False
            self._items.append(item)
            self._bytes += size
            if self._thread is None or not self._thread.is_alive():
                self._start()
            elif len(self._items) in (1, limits.batch_items):
                self._changed.notify()
        return True

    def is_empty(self) -> bool:
        return not self._items

    def is_current_thread(self) -> bool:
        """Return whether the caller runs within `write`."""
        return self._thread is not None and self._thread.is_current()

    def close(self, timeout_s: float) -> int:
        """Write what is queued and end the thread; return how many items the timeout dropped.

        The next `put` starts another thread.
        """
        with self._changed:
            thread, self._closing = self._thread, True
            self._changed.notify()
        if thread is None:
            return 0
        thread.end()  # a pause after a failure ends
        thread.join(timeout_s)
        with self._changed:
            dropped, self._bytes = len(self._items), 0
            self._items.clear()
        return dropped

    def _start(self) -> None:
        self._closing = False
        self._thread = BackgroundThread(self._name, self._run, after_failure=self._after_failure)
        self._thread.start()

    def _run(self) -> None:
        while batch := self._next_batch():
            with one_cycle():
                self._write(batch)
        if self._at_end is not None:
            self._at_end()

    def _next_batch(self) -> list[Item]:
        """Wait for items; return an empty batch when the thread is to end."""
        limits = self._limits
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closing)
            if limits.gather_s:
                self._changed.wait_for(
                    lambda: len(self._items) >= limits.batch_items or self._closing,
                    limits.gather_s,
                )
            batch: list[Item] = []
            size = 0
            while self._items and len(batch) < limits.batch_items:
                item_size = self._size_of(self._items[0])
                if batch and size + item_size > limits.batch_bytes:
                    break
                batch.append(self._items.popleft())
                size += item_size
            self._bytes -= size
            if not batch:
                self._thread = None  # `put` starts another one
            return batch
