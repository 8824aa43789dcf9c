"""Who polls: one watcher, by a beat that rises in the primary store (reference: sync-stack 6.6).

No two clocks are compared: a beat stands still by the clock of whoever watches it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sync_stack.orchestrator.api import LeaderRecord, leader

HEARTBEAT_S: Final = 5.0
DEAD_AFTER_S: Final = 15.0
TRUST_S: Final = 10.0


class LeaderElection:
    """`step` every few seconds, on one thread; `is_mine` may be asked by anybody."""

    def __init__(self, me: str, clock: Callable[[], float]) -> None:
        self.me = me
        self._clock = clock
        self._mine: LeaderRecord | None = None
        self._beaten_at = 0.0
        self._seen: LeaderRecord | None = None
        self._seen_at = 0.0

    @property
    def is_mine(self) -> bool:
        """A leader whose last beat is 10 s old does nothing more."""
        return self._mine is not None and self._clock() - self._beaten_at <= TRUST_S

    def step(self) -> bool:
        """Beat, or look whether somebody should; whether we lead. Raises the store's errors."""
        began = self._clock()
        if self._mine is not None and not self.is_mine:
            self._lose()
        if self._mine is not None:
            self._hold(leader.beat(self._mine), began)
        else:
            self._look(began)
        return self.is_mine

    def release(self) -> None:
        mine, self._mine = self._mine, None
        if mine is not None:
            leader.give_up_lead(mine)

    def _look(self, now: float) -> None:
        seen = leader.lead()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        free = seen is None or not seen.holder
        if free or now - self._seen_at >= DEAD_AFTER_S:
            self._hold(leader.take_lead(self.me, seen), now)

    def _hold(self, mine: LeaderRecord | None, began: float) -> None:
        if mine is None:
            self._lose()
        else:
            self._mine, self._beaten_at = mine, began

    def _lose(self) -> None:
        self._mine, self._seen = None, None
        self._seen_at = self._clock()
