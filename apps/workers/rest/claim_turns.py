"""The turns of claims that wait in this process: one of those that are alike looks for a step.

A step of a run that is not bound yet may be for any of them; all would look into the store for it
otherwise. Who is woken and finds a step wakes two more, because there may be further steps; so many
steps reach many workers in few rounds, and who waits longest comes first (decision 0063).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from apps.executions.api import work_nudge
from apps.streams.api import listen

FOLLOWERS: Final = 2


class Turn:
    """A waiting claim; `kind` is the same for those that find the same steps."""

    def __init__(self, kind: Hashable, wake: Callable[[], None]) -> None:
        self.kind = kind
        self.wake = wake
        self.has_come = False


class ClaimTurns:
    """Callable on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, dict[Turn, None]] = defaultdict(dict)
        self._listens = False

    @contextmanager
    def waiting(self, kind: Hashable, wake: Callable[[], None]) -> Iterator[Turn]:
        """Take part until the end of the block; a turn that has come then passes on."""
        turn = Turn(kind, wake)
        self.take_part(turn)
        try:
            yield turn
        finally:
            with self._lock:
                self._waiting[kind].pop(turn, None)
                if not self._waiting[kind]:
                    del self._waiting[kind]
            if turn.has_come:
                self._wake(kind, FOLLOWERS)

    def take_part(self, turn: Turn) -> None:
        """Wait for the next turn, behind the others."""
        with self._lock:
            turn.has_come = False
            self._waiting[turn.kind][turn] = None
            if not self._listens:
                self._listens = True
                listen(work_nudge(""), self._wake_each_kind)

    def _wake_each_kind(self) -> None:
        """Wake the first claim of each kind: a step waits that any of them may find."""
        with self._lock:
            kinds = list(self._waiting)
        for kind in kinds:
            self._wake(kind, 1)

    def _wake(self, kind: Hashable, count: int) -> None:
        with self._lock:
            alike = self._waiting.get(kind, {})
            first = list(alike)[:count]
            for turn in first:
                del alike[turn]
                turn.has_come = True
        for turn in first:
            turn.wake()


claim_turns: Final = ClaimTurns()
