"""An event loop whose clock stops while its process is stopped (SIGSTOP, a suspended machine).

Deadlines then count only the time in which the supervisor could act. Otherwise every open call and
readiness probe of a resumed process would time out before the loop reads a waiting answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
_POLL_INTERVAL_S: Final = 0.5  # how often the clock is read at least
_STOPPED_S: Final = 2.0  # in a longer pause between two reads the process was stopped


class AwakeEventLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` leaves out pauses of more than two seconds."""

    def __init__(self) -> None:
        self._left_out_s = 0.0
        self._polled_at = time.monotonic()
        super().__init__()
        self._tick()

    def time(self) -> float:
        now = time.monotonic()
        pause_s = now - self._polled_at
        if pause_s > _STOPPED_S:
            self._left_out_s += pause_s
        self._polled_at = now
        return now - self._left_out_s

    def _tick(self) -> None:
        self.call_later(_POLL_INTERVAL_S, self._tick)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on such a loop, as `asyncio.run` does on the usual one."""
    with asyncio.Runner(loop_factory=AwakeEventLoop) as runner:
        return runner.run(main)
