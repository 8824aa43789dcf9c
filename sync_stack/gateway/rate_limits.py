"""Token buckets of clients, and the memory of request bodies (reference: sync-stack 2.7)."""

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
BODY_BYTES: Final = 256 * 2**20
BODY_BYTES_PER_IP: Final = 64 * 2**20
_EVICTED_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The rate of each scope; None switches it off."""

    total: Rate | None
    per_ip: Rate | None
    per_key: Rate | None


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The burst of the sender's address and its tokens left; `limit` is 0 without a limit."""

    limit: int = 0
    remaining: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """The scope that refuses (`global`, `ip`, `key`) and for how many whole seconds, at least 1."""

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
    """Takes a token from all three buckets of a request, or from none."""

    def __init__(self, rates: RateLimits, clock: Callable[[], float]) -> None:
        self.rates = rates
        self._clock = clock
        self._total = _Bucket(rates.total.burst if rates.total else 0.0, clock())
        self._entries: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def configure(self, rates: RateLimits) -> None:
        """Apply new limits; used tokens stay used."""
        self.rates = rates

    def admit(self, ip: str, key: str) -> Admission | Limited:
        """Take the tokens; `key` is the segment of the route, or `other` for unknown ones."""
        now = self._clock()
        self._evict_idle(now)
        asked = (
            ("global", self.rates.total, self._total),
            ("ip", self.rates.per_ip, self._bucket(ip, self.rates.per_ip, now)),
            ("key", self.rates.per_key, self._bucket(f"{ip}\n{key}", self.rates.per_key, now)),
        )
        for scope, rate, bucket in asked:
            if rate is not None and bucket.fill(rate, now) < 1:
                wait = math.ceil((1 - bucket.tokens) / rate.rate)
                return Limited(scope=scope, retry_after_s=max(1, wait))
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

    def _evict_idle(self, now: float) -> None:
        """Drop a few idle entries, the least recently used first."""
        for _ in range(_EVICTED_AT_ONCE):
            oldest = next(iter(self._entries), None)
            if oldest is None or now - self._entries[oldest].at < IDLE_S:
                return
            del self._entries[oldest]


class MemoryBudget:
    """Limits the bytes of request bodies in memory, in total and for each address."""

    def __init__(self, *, total: int = BODY_BYTES, per_ip: int = BODY_BYTES_PER_IP) -> None:
        self._total_limit = total
        self._ip_limit = per_ip
        self._by_ip: dict[str, int] = {}
        self.total = 0

    def take(self, ip: str, size: int, *, one_body: int) -> str:
        """Return the scope that refuses, or an empty text; `one_body` always fits."""
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
