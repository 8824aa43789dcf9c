"""An event loop whose clock stands still while its process does (SIGSTOP, a suspended machine).

Deadlines then count the time in which the supervisor could have acted. Without this, each call
under way and each readiness probe of a process that comes back would be too late at once, before
the loop reads an answer that has been waiting for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
_POLL_INTERVAL_S: Final = 0.5  # how often the clock is read at least
_STOOD_STILL_S: Final = 2.0  # a longer pause between two looks is no time of this process


class AwakeEventLoop(asyncio.SelectorEventLoop):
    """`time()` leaves out every pause in which nothing of the loop ran for two seconds."""

    def __init__(self) -> None:
        self._left_out_s = 0.0
        self._polled_at = time.monotonic()
        super().__init__()
        self._look()

    def time(self) -> float:
        now = time.monotonic()
        pause_s = now - self._polled_at
        if pause_s > _STOOD_STILL_S:
            self._left_out_s += pause_s
        self._polled_at = now
        return now - self._left_out_s

    def _look(self) -> None:
        self.call_later(_POLL_INTERVAL_S, self._look)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run it to its end on such a loop, as `asyncio.run` does on the usual one."""
    with asyncio.Runner(loop_factory=AwakeEventLoop) as runner:
        return runner.run(main)
