"""A limit on what happens at once, first come first served, for callers of any event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque


class Slots:
    """At most `at_once` hold a slot, at most `waiting` wait for one."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = at_once
        self._max_waiting = waiting
        self._waiters: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    async def acquire(self) -> bool:
        """Return whether the caller holds a slot now; False when too many wait."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            if len(self._waiters) >= self._max_waiting:
                return False
            waiter = _Waiter(asyncio.get_running_loop())
            self._waiters.append(waiter)
        try:
            await waiter.woken
        except asyncio.CancelledError:
            with self._lock:
                still_waits = waiter in self._waiters
                if still_waits:
                    self._waiters.remove(waiter)
            if not still_waits:
                self.release()
            raise
        return True

    def release(self) -> None:
        """Give the slot to who has waited longest; a loop that has ended is passed over."""
        with self._lock:
            while self._waiters:
                if self._waiters.popleft().wake():
                    return
            self._free += 1


class _Waiter:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.woken: asyncio.Future[None] = loop.create_future()

    def wake(self) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._set)
        except RuntimeError:  # its loop is closed
            return False
        return True

    def _set(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)
