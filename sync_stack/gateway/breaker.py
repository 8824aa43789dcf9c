"""The circuit breaker in front of the orchestrator (reference: sync-stack 2.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import msgspec


class BreakerState(IntEnum):
    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLimits:
    failures: int = 5
    open_s: float = 30.0
    probes: int = 1
    successes: int = 3


class Permit(msgspec.Struct, frozen=True):
    """One admitted call; results with the `epoch` of an earlier state are ignored."""

    epoch: int


class Breaker:
    """closed → open after consecutive failures → half-open at the first request after the pause.

    `half_open` ends the pause early, for who knows that the orchestrator is back.
    Pass every permit to `record_success`, `record_failure` or `release`, once.
    """

    def __init__(
        self,
        limits: BreakerLimits,
        clock: Callable[[], float],
        on_change: Callable[[BreakerState, BreakerState], None] = lambda _before, _after: None,
    ) -> None:
        self.limits = limits
        self.state: BreakerState = BreakerState.CLOSED
        self._clock = clock
        self._on_change = on_change
        self._count = 0  # consecutive failures when closed, successes when half-open
        self._running = 0  # probes in progress
        self._opened_at = 0.0
        self._epoch = 0

    def wait_s(self) -> int:
        """Return the whole seconds until a call may be admitted; 0 for now."""
        if self.state is BreakerState.OPEN:
            left = self._opened_at + self.limits.open_s - self._clock()
            return max(1, math.ceil(left)) if left > 0 else 0
        busy = self.state is BreakerState.HALF_OPEN and self._running >= self.limits.probes
        return 1 if busy else 0

    def admit(self) -> Permit | int:
        """Return a permit, or the whole seconds until one may be available."""
        if wait := self.wait_s():
            return wait
        if self.state is BreakerState.OPEN:
            self._enter(BreakerState.HALF_OPEN)
        if self.state is BreakerState.HALF_OPEN:
            self._running += 1
        return Permit(self._epoch)

    def half_open(self) -> None:
        """Let the next call through as a probe, if the breaker is open."""
        if self.state is BreakerState.OPEN:
            self._enter(BreakerState.HALF_OPEN)

    def record_success(self, permit: Permit) -> None:
        if not self._is_current(permit):
            return
        if self.state is BreakerState.CLOSED:
            self._count = 0
            return
        self._count += 1
        if self._count >= self.limits.successes:
            self._enter(BreakerState.CLOSED)

    def record_failure(self, permit: Permit) -> None:
        if not self._is_current(permit):
            return
        if self.state is BreakerState.HALF_OPEN:
            self._enter(BreakerState.OPEN)
            return
        self._count += 1
        if self._count >= self.limits.failures:
            self._enter(BreakerState.OPEN)

    def release(self, permit: Permit) -> None:
        """Return a permit whose call says nothing about the orchestrator."""
        self._is_current(permit)

    def _is_current(self, permit: Permit) -> bool:
        if permit.epoch != self._epoch:
            return False
        self._running = max(0, self._running - 1)
        return True

    def _enter(self, state: BreakerState) -> None:
        before, self.state = self.state, state
        self._count = self._running = 0
        self._epoch += 1
        if state is BreakerState.OPEN:
            self._opened_at = self._clock()
        self._on_change(before, state)


BREAKER_LABELS: Final = {
    BreakerState.CLOSED: "closed",
    BreakerState.OPEN: "open",
    BreakerState.HALF_OPEN: "half-open",
}
