"""Leader election: the leader raises a heartbeat in the primary store (reference: sync-stack 6.6).

No two clocks are compared: each watcher times the heartbeat by its own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sync_stack.orchestrator.api import LeaderRecord, leader

HEARTBEAT_S: Final = 5.0
DEAD_AFTER_S: Final = 15.0
TRUST_S: Final = 10.0


class LeaderElection:
    """Call `step` every few seconds on one thread; `is_mine` may be read from any thread."""

    def __init__(self, me: str, clock: Callable[[], float]) -> None:
        self.me = me
        self._clock = clock
        self._mine: LeaderRecord | None = None
        self._renewed_at = 0.0
        self._observed: LeaderRecord | None = None
        self._observed_at = 0.0

    @property
    def is_mine(self) -> bool:
        """Return whether this watcher leads; not if its last heartbeat is older than 10 s."""
        return self._mine is not None and self._clock() - self._renewed_at <= TRUST_S

    def step(self) -> bool:
        """Renew the lead, or take a free one; return whether this watcher leads."""
        began = self._clock()
        if self._mine is not None and not self.is_mine:
            self._lose()
        if self._mine is not None:
            self._hold(leader.renew(self._mine), began)
        else:
            self._try_to_lead(began)
        return self.is_mine

    def release(self) -> None:
        mine, self._mine = self._mine, None
        if mine is not None:
            leader.resign(mine)

    def _try_to_lead(self, now: float) -> None:
        observed = leader.current()
        if observed != self._observed:
            self._observed, self._observed_at = observed, now
        free = observed is None or not observed.holder
        if free or now - self._observed_at >= DEAD_AFTER_S:
            self._hold(leader.acquire(self.me, observed), now)

    def _hold(self, mine: LeaderRecord | None, began: float) -> None:
        if mine is None:
            self._lose()
        else:
            self._mine, self._renewed_at = mine, began

    def _lose(self) -> None:
        self._mine, self._observed = None, None
        self._observed_at = self._clock()
