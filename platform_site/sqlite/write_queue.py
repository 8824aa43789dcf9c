"""The queue of those in this process who write one SQLite file: first come, first served.

SQLite lets one connection write at a time, and whoever finds the file locked looks again after a
pause that grows to 100 ms: under load, some never find it free. Threads of one process wait here
instead. A store that is busy is not away: the wait is limited only while nobody gets the lock,
because then another process holds it, or the file cannot be used.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_S: Final = 10.0  # behind other writers of this process
_LOOK_S: Final = 0.1


class QueueStalled(Exception):
    """The store is away, or busy for longer than the patience."""


class WriteQueue:
    """It is thread-safe; a turn may end on another thread than the one that took it."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._taken = False
        self._without_lock_since: float | None = None  # while those whose turn it is get no lock

    def take(self, *, stall_s: float, patience_s: float = PATIENCE_S) -> None:
        """Wait for the turn.

        Raise QueueStalled after `patience_s`, or when nobody has got the lock for `stall_s`.
        """
        began = time.monotonic()
        turn = threading.Event()
        with self._changing:
            if not self._taken:
                self._taken, self._without_lock_since = True, began
                return
            self._waiting.append(turn)
        while not turn.wait(_LOOK_S):
            if self._gives_up(turn, began, stall_s=stall_s, patience_s=patience_s):
                raise QueueStalled

    def note_lock(self) -> None:
        """Say that whose turn it is has the lock of the file."""
        with self._changing:
            self._without_lock_since = None

    def leave(self) -> None:
        """End the turn."""
        with self._changing:
            if self._waiting:
                if self._without_lock_since is None:
                    self._without_lock_since = time.monotonic()
                self._waiting.popleft().set()
            else:
                self._taken, self._without_lock_since = False, None

    @contextmanager
    def turn(self, *, stall_s: float) -> Iterator[None]:
        """Wait for the turn and take it in this block, for one statement."""
        self.take(stall_s=stall_s)
        try:
            yield
            self.note_lock()
        finally:
            self.leave()

    def _gives_up(
        self, turn: threading.Event, began: float, *, stall_s: float, patience_s: float
    ) -> bool:
        now = time.monotonic()
        with self._changing:
            if turn.is_set():
                return False
            since = self._without_lock_since
            stalled = since is not None and now - max(since, began) >= stall_s
            if not stalled and now - began < patience_s:
                return False
            self._waiting.remove(turn)
            return True


_queues: Final[dict[str, WriteQueue]] = {}


def queue_of(path: str) -> WriteQueue:
    """Return the queue of a file in this process."""
    return _queues.setdefault(path, WriteQueue())


os.register_at_fork(after_in_child=_queues.clear)  # the turns were the parent's
