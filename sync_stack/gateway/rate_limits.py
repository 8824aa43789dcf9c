"""Token buckets of senders, and the bytes of bodies held at once (reference: sync-stack 2.7)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from sync_stack.core.bundle.model import Rate

MAX_ENTRIES: Final = 100_000
IDLE_S: Final = 600.0
HELD_BYTES: Final = 256 * 2**20
HELD_BYTES_PER_IP: Final = 64 * 2**20
_SWEPT_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """None: that scope is off."""

    total: Rate | None
    per_ip: Rate | None
    per_key: Rate | None


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """Of the sender's address: its burst and the tokens left; `limit` 0 when that scope is off."""

    limit: int = 0
    remaining: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """Refused by one scope (`global`, `ip`, `key`) for that many whole seconds, at least 1."""

    scope: str
    retry_after_s: int


class _Bucket:
    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens = tokens
        self.at = at

    def fill(self, rate: Rate, now: float) -> float:
        self.tokens = min(float(rate.burst), self.tokens + (now - self.at) * rate.rate)
        self.at = now
        return self.tokens


class RateLimiter:
    """A request takes a token from all three buckets, or from none."""

    def __init__(self, rates: RateLimits, clock: Callable[[], float]) -> None:
        self.rates = rates
        self._clock = clock
        self._total = _Bucket(rates.total.burst if rates.total else 0.0, clock())
        self._entries: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def configure(self, rates: RateLimits) -> None:
        """New limits from now on; what was used up stays used up."""
        self.rates = rates

    def admit(self, ip: str, key: str) -> Admission | Limited:
        """`key` is the route's segment, or one word for all unknown ones."""
        now = self._clock()
        self._forget(now)
        asked = (
            ("global", self.rates.total, self._total),
            ("ip", self.rates.per_ip, self._bucket(ip, self.rates.per_ip, now)),
            ("key", self.rates.per_key, self._bucket(f"{ip}\n{key}", self.rates.per_key, now)),
        )
        for scope, rate, bucket in asked:
            if rate is not None and bucket.fill(rate, now) < 1:
                return Limited(scope=scope, retry_after_s=_seconds_to_one(bucket.tokens, rate))
        for _scope, rate, bucket in asked:
            if rate is not None:
                bucket.tokens -= 1
        if self.rates.per_ip is None:
            return Admission()
        return Admission(limit=self.rates.per_ip.burst, remaining=int(asked[1][2].tokens))

    def _bucket(self, name: str, rate: Rate | None, now: float) -> _Bucket:
        if rate is None:
            return self._total
        bucket = self._entries.get(name)
        if bucket is None:
            bucket = self._entries[name] = _Bucket(float(rate.burst), now)
            if len(self._entries) > MAX_ENTRIES:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(name)
        return bucket

    def _forget(self, now: float) -> None:
        """Drop a few idle entries; those used longest ago stand first."""
        for _ in range(_SWEPT_AT_ONCE):
            oldest = next(iter(self._entries), None)
            if oldest is None or now - self._entries[oldest].at < IDLE_S:
                return
            del self._entries[oldest]


def _seconds_to_one(tokens: float, rate: Rate) -> int:
    return max(1, math.ceil((1 - tokens) / rate.rate))


class MemoryBudget:
    """How many bytes of bodies are in memory; takes are given back by `release`."""

    def __init__(self, *, total: int = HELD_BYTES, per_ip: int = HELD_BYTES_PER_IP) -> None:
        self._total_limit = total
        self._ip_limit = per_ip
        self._by_ip: dict[str, int] = {}
        self.total = 0

    def take(self, ip: str, size: int, *, one_body: int) -> str:
        """Empty when taken, else the scope that refuses; an address may always hold `one_body`."""
        if self.total + size > max(self._total_limit, one_body):
            return "global"
        held = self._by_ip.get(ip, 0) + size
        if held > max(self._ip_limit, one_body):
            return "ip"
        self._by_ip[ip] = held
        self.total += size
        return ""

    def release(self, ip: str, size: int) -> None:
        if not size:
            return
        self.total -= size
        left = self._by_ip.get(ip, 0) - size
        if left > 0:
            self._by_ip[ip] = left
        else:
            self._by_ip.pop(ip, None)
