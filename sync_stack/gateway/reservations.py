"""Reservations of deliveries: a copy waits while its original is forwarded, then is refused.

The replay records are kept in this process and, with a Redis datasource, shared with other
gateways. (reference: sync-stack 2.5)
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import Any, Final

import msgspec
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from sync_stack.core.replay import ReplayKeys
from sync_stack.gateway.responses import Code, Refusal
from sync_stack.gateway.webhook_secrets import WebhookSecretResolver
from sync_stack.sinks.redis import RedisMode, RedisOptions
from sync_stack.sinks.redis.client import host_and_port, login_and_tls

MAX_RECORDS: Final = 1_000_000
_STALE_SHARE: Final = 2


class ClaimResult(IntEnum):
    """What a claim found: nothing (so it succeeded), a reservation, or an accepted delivery."""

    NONE = 0
    RESERVED = 1
    ACCEPTED = 2


@dataclass(slots=True, eq=False)
class _ReplayRecord:
    """The record of one delivery under all its keys."""

    keys: Sequence[str]
    owner: str  # empty: accepted
    expires: float


class MemoryReplay:
    """Replay records of this process, bounded and with expiry. Use on one event loop."""

    def __init__(self, clock: Callable[[], float], *, max_records: int = MAX_RECORDS) -> None:
        self._clock = clock
        self._max = max_records
        self._records: dict[str, _ReplayRecord] = {}
        self._expiries: list[tuple[float, int, _ReplayRecord]] = []
        self._numbers = count()  # so that equal expiries compare
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def claim(self, keys: Sequence[str], owner: str, lifetime_s: float) -> ClaimResult:
        """Claim all keys or none."""
        now = self._clock()
        while self._expiries and self._expiries[0][0] <= now:
            self._drop_earliest()
        found = ClaimResult.NONE
        for key in keys:
            met = self._records.get(key)
            if met is not None and not met.owner:
                return ClaimResult.ACCEPTED
            if met is not None and met.owner != owner:
                found = ClaimResult.RESERVED
        if found is ClaimResult.NONE:
            self._put(_ReplayRecord(keys, owner, now + lifetime_s))
        return found

    def accept(self, keys: Sequence[str], owner: str, window_s: float) -> None:
        """Mark what this owner reserved as accepted for the window."""
        record = self._find_owned(keys, owner)
        if record is not None:
            record.owner, record.expires = "", self._clock() + window_s
            self._put(record)
            self._wake(keys)

    def release(self, keys: Sequence[str], owner: str) -> None:
        """Delete what this owner reserved."""
        record = self._find_owned(keys, owner)
        if record is not None:
            self._drop(record)
            self._wake(keys)

    async def wait_for_change(self, keys: Sequence[str], timeout_s: float) -> None:
        """Wait until one of the records changes or the time is over."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, set()).add(future)
        try:
            await asyncio.wait((future,), timeout=timeout_s)
        finally:
            for key in keys:
                self._stop_waiting(key, future)

    def _find_owned(self, keys: Sequence[str], owner: str) -> _ReplayRecord | None:
        """Return the record of these keys if this owner reserved it."""
        record = self._records.get(keys[0])
        return record if record is not None and record.owner == owner else None

    def _put(self, record: _ReplayRecord) -> None:
        for key in record.keys:
            self._records[key] = record
        heapq.heappush(self._expiries, (record.expires, next(self._numbers), record))
        while len(self._records) > self._max:
            self._drop_earliest()
        if len(self._expiries) > _STALE_SHARE * len(self._records) + 1024:
            live = set(self._records.values())
            self._expiries = [(each.expires, next(self._numbers), each) for each in live]
            heapq.heapify(self._expiries)

    def _drop_earliest(self) -> None:
        """Remove the first expiry, and its record unless that was prolonged since."""
        expires, _number, record = heapq.heappop(self._expiries)
        if record.expires == expires:
            self._drop(record)

    def _drop(self, record: _ReplayRecord) -> None:
        """Remove its keys, except those of a later record."""
        for key in record.keys:
            if self._records.get(key) is record:
                del self._records[key]

    def _wake(self, keys: Sequence[str]) -> None:
        for key in keys:
            for future in self._waiting.get(key, ()):
                if not future.done():
                    future.set_result(None)

    def _stop_waiting(self, key: str, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[key]


log: Final = logging.getLogger("partita.sync.gateway")

TIMEOUT_S: Final = 0.25
PAUSE_S: Final = 5.0
_LOG_EVERY_S: Final = 60.0
# ARGV: verb, owner, milliseconds. A record is `accepted` or `r:<owner>`.
SCRIPT: Final = """
local verb, mine, ttl = ARGV[1], 'r:' .. ARGV[2], ARGV[3]
if verb == 'claim' then
  local found = 0
  for _, key in ipairs(KEYS) do
    local value = redis.call('GET', key)
    if value == 'accepted' then return 2 end
    if value and value ~= mine then found = 1 end
  end
  if found == 0 then
    for _, key in ipairs(KEYS) do redis.call('SET', key, mine, 'PX', ttl) end
  end
  return found
end
for _, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if verb == 'accept' and (not value or value == mine) then
    redis.call('SET', key, 'accepted', 'PX', ttl)
  elseif verb == 'release' and value == mine then
    redis.call('DEL', key)
  end
end
return 0
"""


class RedisReplay:
    """Replay records in Redis by one Lua script; paused for a while after a failure."""

    def __init__(
        self, client: Any, clock: Callable[[], float], on_error: Callable[[], None]
    ) -> None:
        self._client = client
        self._script = client.register_script(SCRIPT)
        self._clock = clock
        self._on_error = on_error
        self._down_until = float("-inf")
        self._logged_at = float("-inf")

    async def claim(self, keys: Sequence[str], owner: str, lifetime_s: float) -> ClaimResult | None:
        """Claim all keys or none; return None while Redis is unavailable."""
        if self._clock() < self._down_until:
            return None
        result = await self._run("claim", keys, owner, lifetime_s)
        return None if result is None else ClaimResult(result)

    async def accept(self, keys: Sequence[str], owner: str, window_s: float) -> None:
        if self._clock() >= self._down_until:
            await self._run("accept", keys, owner, window_s)

    async def release(self, keys: Sequence[str], owner: str) -> None:
        """Delete the records, also during a pause: a record left behind would delay redelivery."""
        await self._run("release", keys, owner, 1)

    async def close(self) -> None:
        await self._client.aclose()

    async def _run(
        self, verb: str, keys: Sequence[str], owner: str, lifetime_s: float
    ) -> int | None:
        arguments = [verb, owner, max(1, int(lifetime_s * 1000))]
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return int(await self._script(keys=list(keys), args=arguments))
        except (RedisError, OSError, TimeoutError) as error:
            self._note_failure(error)
            return None

    def _note_failure(self, error: Exception) -> None:
        self._on_error()
        now = self._clock()
        self._down_until = now + PAUSE_S
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.warning(
                "replay records cannot be shared, this process decides alone: %s",
                type(error).__name__,
                extra={"event": "replay_store_failed"},
            )


_TIMEOUT_S: Final = 0.25
_CONNECTIONS: Final = 64


def open_redis(options: RedisOptions, resolver: WebhookSecretResolver) -> Any:
    """Open an asyncio client, which connects at first use. Raises SecretError."""
    hosts = [host_and_port(text) for text in options.hosts]
    common = login_and_tls(options, resolver.resolve) | {
        "socket_timeout": _TIMEOUT_S,
        "socket_connect_timeout": _TIMEOUT_S,
    }
    if options.mode is RedisMode.CLUSTER:
        nodes = [ClusterNode(host, port) for host, port in hosts]
        return RedisCluster(startup_nodes=nodes, **common)
    common |= {"db": options.db, "retry": Retry(NoBackoff(), 0), "max_connections": _CONNECTIONS}
    if options.mode is RedisMode.SENTINEL:
        sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
            hosts, sentinel_kwargs={"socket_timeout": _TIMEOUT_S}
        )
        return sentinel.master_for(options.sentinel_master, **common)
    return Redis(host=hosts[0][0], port=hosts[0][1], **common)


MAX_WAITERS: Final = 100
LIFETIME_MARGIN_S: Final = 22.0
_WAIT_MARGIN_S: Final = 1.0
_POLL_S: Final = 0.1  # reservations of other processes wake no waiter here
_RETRY_AFTER_S: Final = 5


class Reservation(msgspec.Struct, frozen=True):
    keys: tuple[str, ...]
    owner: str


class Reservations:
    """Reserves deliveries in the memory of this process and in the shared store, if any."""

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
        """Raise Refusal for an accepted delivery (401) or a copy still in progress (503)."""
        reservation = Reservation(keys.redis_keys(), owner)
        lifetime = forward_timeout_s + LIFETIME_MARGIN_S
        found = await self._claim(reservation, lifetime)
        if found is ClaimResult.RESERVED:
            found = await self._wait(reservation, lifetime, forward_timeout_s + _WAIT_MARGIN_S)
        if found is ClaimResult.ACCEPTED:
            raise Refusal(Code.REPLAY_DETECTED, "this delivery was already accepted")
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

    async def _claim(self, reservation: Reservation, lifetime_s: float) -> ClaimResult:
        found = self.memory.claim(reservation.keys, reservation.owner, lifetime_s)
        if found is not ClaimResult.NONE or self._shared is None:
            return found
        shared = await self._shared.claim(reservation.keys, reservation.owner, lifetime_s)
        if shared is not None and shared is not ClaimResult.NONE:
            self.memory.release(reservation.keys, reservation.owner)
            return shared
        return ClaimResult.NONE

    async def _wait(
        self, reservation: Reservation, lifetime_s: float, timeout_s: float
    ) -> ClaimResult:
        """Wait for the end of another reservation and claim again."""
        if self._waiters >= MAX_WAITERS:
            raise _in_progress()
        deadline = self._clock() + timeout_s
        self._waiters += 1
        try:
            while (left := deadline - self._clock()) > 0:
                step = left if self._shared is None else min(left, _POLL_S)
                await self.memory.wait_for_change(reservation.keys, step)
                found = await self._claim(reservation, lifetime_s)
                if found is not ClaimResult.RESERVED:
                    return found
        finally:
            self._waiters -= 1
        raise _in_progress()


def _in_progress() -> Refusal:
    return Refusal(
        Code.DELIVERY_IN_PROGRESS,
        "a copy of this delivery is still being forwarded",
        retry_after_s=_RETRY_AFTER_S,
    )
