"""A delivery reserved while it is handed on, so that copies of it wait.

(reference: sync-stack 2.5)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from sync_stack.core.replay import ReplayKeys
from sync_stack.gateway.answers import Code, Refusal
from sync_stack.gateway.replay_memory import Found, MemoryReplay
from sync_stack.gateway.replay_redis import RedisReplay

MAX_WAITERS: Final = 100
LIFETIME_MARGIN_S: Final = 22.0
_WAIT_MARGIN_S: Final = 1.0
_POLL_S: Final = 0.1  # for reservations of other processes, which wake nobody here
_RETRY_AFTER_S: Final = 5


class Reservation(msgspec.Struct, frozen=True):
    keys: tuple[str, ...]
    owner: str


class Reservations:
    """Asks this process's records and, when there is one, the shared store."""

    def __init__(
        self, memory: MemoryReplay, shared: RedisReplay | None, clock: Callable[[], float]
    ) -> None:
        self.memory = memory
        self._shared = shared
        self._clock = clock
        self._waiters = 0

    async def reserve(
        self, keys: ReplayKeys, owner: str, *, forward_timeout_s: float
    ) -> Reservation:
        """Raises Refusal: accepted before (401), or another copy is still under way (503)."""
        reservation = Reservation(keys.redis_keys(), owner)
        lifetime = forward_timeout_s + LIFETIME_MARGIN_S
        found = await self._claim(reservation, lifetime)
        if found is Found.RESERVED:
            found = await self._wait(reservation, lifetime, forward_timeout_s + _WAIT_MARGIN_S)
        if found is Found.ACCEPTED:
            raise Refusal(Code.REPLAY_DETECTED, "this delivery was accepted before")
        return reservation

    async def accept(self, reservation: Reservation, window_s: float) -> None:
        self.memory.accept(reservation.keys, reservation.owner, window_s)
        if self._shared is not None:
            await self._shared.accept(reservation.keys, reservation.owner, window_s)

    async def release(self, reservation: Reservation) -> None:
        if self._shared is not None:
            await self._shared.release(reservation.keys, reservation.owner)
        self.memory.release(reservation.keys, reservation.owner)

    async def close(self) -> None:
        if self._shared is not None:
            await self._shared.close()

    async def _claim(self, reservation: Reservation, lifetime_s: float) -> Found:
        found = self.memory.claim(reservation.keys, reservation.owner, lifetime_s)
        if found is not Found.NONE or self._shared is None:
            return found
        shared = await self._shared.claim(reservation.keys, reservation.owner, lifetime_s)
        if shared is not None and shared is not Found.NONE:
            self.memory.release(reservation.keys, reservation.owner)
            return shared
        return Found.NONE

    async def _wait(self, reservation: Reservation, lifetime_s: float, timeout_s: float) -> Found:
        if self._waiters >= MAX_WAITERS:
            raise _in_progress()
        self._waiters += 1
        try:
            return await self._outcome(reservation, lifetime_s, self._clock() + timeout_s)
        finally:
            self._waiters -= 1

    async def _outcome(self, reservation: Reservation, lifetime_s: float, deadline: float) -> Found:
        while (left := deadline - self._clock()) > 0:
            step = left if self._shared is None else min(left, _POLL_S)
            await self.memory.changed(reservation.keys, step)
            found = await self._claim(reservation, lifetime_s)
            if found is not Found.RESERVED:
                return found
        raise _in_progress()


def _in_progress() -> Refusal:
    return Refusal(
        Code.DELIVERY_IN_PROGRESS,
        "a copy of this delivery is still being handed on",
        retry_after_s=_RETRY_AFTER_S,
    )
