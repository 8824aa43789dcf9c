"""Rate limits: a maximum number of attempts of one key in a sliding window.

Requests are counted in Redis, if there is one, and in the store while Redis does not answer; in a
minute in which Redis fails or returns, each of the two admits up to the limit. Failed passwords
are always counted in the store. Call these functions outside a unit of work.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Final, Protocol
from uuid import UUID

from django.http import HttpRequest

from apps.accounts.domain.errors import TooManyAttempts
from apps.accounts.models import LimitHit
from apps.http.api import client_ip
from apps.operations.api import SharedRedisClient, redis_key, shared_redis
from kernel.clock import now
from kernel.redis_breaker import RedisUnavailable

_MINUTE: Final = timedelta(minutes=1)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A number of requests per minute. Routes with the same bucket count together."""

    bucket: str
    per_minute: int


SIGN_UP: Final = RateLimit("auth.sign-up", 5)
SIGN_IN: Final = RateLimit("auth.sign-in", 10)  # also refresh and the exchange of one-time codes
OIDC: Final = RateLimit("auth.oidc", 60)  # a whole office has one address
CI: Final = RateLimit("auth.ci", 60)  # all jobs of a company may have one address
RESET: Final = RateLimit("auth.reset", 5)
DEVICE_TOKEN: Final = RateLimit("auth.device-token", 120)  # programs that wait in one office
INVITATIONS: Final = RateLimit("auth.invitations", 20)
INVITATION_MAILS: Final = RateLimit("auth.invitation-mails", 10)  # of one sender
STREAM_TICKETS: Final = RateLimit("auth.stream-tickets", 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingDelay:
    """After `free` attempts within `window`, the next waits 1 s, then 2 s, 4 s … `longest`."""

    free: int
    window: timedelta
    longest: timedelta

    @property
    def most_counted(self) -> int:
        """The number of attempts after which the delay grows no more."""
        return self.free + int(self.longest.total_seconds()).bit_length()

    def after(self, attempts: int) -> timedelta:
        """Return how long after the last of them the next one is admitted."""
        if attempts < self.free:
            return timedelta(0)
        return min(timedelta(seconds=2 ** (attempts - self.free)), self.longest)


class AttemptCounter(Protocol):
    """Admits at most `limit` attempts of one key within any `window`, over all processes.

    The window slides: an attempt counts for exactly `window`, and a refused attempt does not
    count. Concurrent attempts never exceed the limit.
    """

    def count(self, key_hash: str, *, limit: int, window: timedelta) -> int:
        """Return 0 for an admitted attempt, else the seconds until one would be admitted."""
        ...


class StoreAttempts:
    """Counts attempts in the store.

    Each attempt is a row, inserted before the rows of the window are counted, so that concurrent
    attempts see each other. Inside a unit of work they would not.
    """

    def count(self, key_hash: str, *, limit: int, window: timedelta) -> int:
        moment = now()
        hit = LimitHit.objects.create(key_hash=key_hash, expires_at=moment + window)
        others = LimitHit.objects.filter(key_hash=key_hash, expires_at__gt=moment)
        newest_first = others.exclude(pk=hit.pk).order_by("-expires_at")
        ends = list(newest_first.values_list("expires_at", flat=True)[:limit])
        if len(ends) < limit:
            return 0
        hit.delete()
        return max(1, ceil((ends[-1] - moment).total_seconds()))

    def delay(self, key_hash: str, rule: GrowingDelay) -> tuple[UUID, int]:
        """Count an attempt; return its key for `withdraw`, and the seconds to wait, 0: admitted.

        An attempt that has to wait does not count.
        """
        moment = now()
        hit = LimitHit.objects.create(key_hash=key_hash, expires_at=moment + rule.window)
        others = LimitHit.objects.filter(key_hash=key_hash, expires_at__gt=moment)
        newest_first = others.exclude(pk=hit.pk).order_by("-expires_at")
        ends = list(newest_first.values_list("expires_at", flat=True)[: rule.most_counted])
        if not (delay := rule.after(len(ends))):
            return hit.pk, 0
        wait = ends[0] - rule.window + delay - moment
        if wait <= timedelta(0):
            return hit.pk, 0
        hit.delete()
        return hit.pk, ceil(wait.total_seconds())

    def withdraw(self, attempt: UUID) -> None:
        LimitHit.objects.filter(pk=attempt).delete()

    def forget(self, key_hash: str) -> None:
        LimitHit.objects.filter(key_hash=key_hash).delete()


# KEYS: the set. ARGV: limit, window in µs, the name of this attempt. Returns µs to wait, or 0.
_COUNT: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= limit then
  return redis.call('ZRANGE', KEYS[1], -limit, -limit, 'WITHSCORES')[2] - now
end
redis.call('ZADD', KEYS[1], now + window, ARGV[3])
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
return 0
"""


class RedisAttempts:
    """Counts attempts in Redis; raises RedisUnavailable.

    Each key is a sorted set of at most `limit` attempts, scored with their ends by Redis' clock.
    One script counts an attempt, in one round trip and atomically.
    """

    def __init__(self, redis: SharedRedisClient) -> None:
        self._redis = redis

    def count(self, key_hash: str, *, limit: int, window: timedelta) -> int:
        wait_us: int = self._redis.run(
            _COUNT,
            keys=[redis_key("attempts", key_hash)],
            arguments=[limit, window // _MICROSECOND, secrets.token_hex(8)],
        )
        return ceil(wait_us / 1_000_000)


_store: Final = StoreAttempts()


def limit_by_ip(request: HttpRequest, limit: RateLimit) -> None:
    """Count a request of this client; raise TooManyAttempts."""
    limit_rate(limit.bucket, client_ip(request), limit.per_minute)


def limit_rate(bucket: str, key: str, limit: int) -> None:
    """Count a request of `key` against `limit` requests per minute.

    Raise TooManyAttempts (429 rate_limited); a refused request does not count.
    """
    key_hash = _key_hash(bucket, key)
    counter: AttemptCounter = RedisAttempts(redis) if (redis := shared_redis()) else _store
    try:
        wait_s = counter.count(key_hash, limit=limit, window=_MINUTE)
    except RedisUnavailable:
        wait_s = _store.count(key_hash, limit=limit, window=_MINUTE)
    if wait_s:
        raise TooManyAttempts("too many requests", retry_after_s=wait_s)


def count_attempt(bucket: str, key: str, *, limit: int, window: timedelta) -> int:
    """Count an attempt in the store; return 0, or the seconds until one would be admitted."""
    return _store.count(_key_hash(bucket, key), limit=limit, window=window)


def delay_attempt(bucket: str, key: str, rule: GrowingDelay) -> tuple[UUID, int]:
    """Count an attempt in the store; return its key, and the seconds until it is admitted, or 0."""
    return _store.delay(_key_hash(bucket, key), rule)


def withdraw_attempt(attempt: UUID) -> None:
    """Let an attempt of `delay_attempt` not count after all."""
    _store.withdraw(attempt)


def has_attempt(bucket: str, key: str, *, beyond: timedelta = timedelta(0)) -> bool:
    """Return whether the store holds an attempt that counts for longer than `beyond`."""
    rows = LimitHit.objects.filter(key_hash=_key_hash(bucket, key))
    return rows.filter(expires_at__gt=now() + beyond).exists()


def keep_attempt(bucket: str, key: str, *, window: timedelta) -> None:
    """Replace the attempts of this key by one that begins now."""
    _store.forget(_key_hash(bucket, key))
    LimitHit.objects.create(key_hash=_key_hash(bucket, key), expires_at=now() + window)


def clear_attempts(bucket: str, key: str) -> None:
    """Delete the attempts that the store counted."""
    _store.forget(_key_hash(bucket, key))


def _key_hash(bucket: str, key: str) -> str:
    return hashlib.sha256(f"{bucket}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()
