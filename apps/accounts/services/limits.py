"""Limits: at most so many attempts of one key in a sliding window.

Requests a minute are counted in Redis when there is one, at once in the store while it does not
answer: a minute in which it goes or comes back lets through up to the limit from each of them.
Failed passwords are always counted in the store. Call these outside a unit of work.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.http import HttpRequest

from apps.accounts.domain.attempts import AttemptCounter
from apps.accounts.domain.errors import TooManyAttempts
from apps.accounts.services.attempts_in_redis import RedisAttempts
from apps.accounts.services.attempts_in_store import StoreAttempts
from apps.system.api import RedisAway, client_ip, shared_redis

_MINUTE: Final = timedelta(minutes=1)
_store: Final = StoreAttempts()


@dataclass(frozen=True, slots=True)
class Limit:
    """So many requests a minute; routes that share a bucket count together."""

    bucket: str
    a_minute: int


SIGN_UP: Final = Limit("auth.sign-up", 5)
SIGN_IN: Final = Limit("auth.sign-in", 10)  # and refresh, and the exchange of a one-time code
RESET: Final = Limit("auth.reset", 5)
STREAM_TICKETS: Final = Limit("auth.stream-tickets", 60)


def limit_by_ip(request: HttpRequest, limit: Limit) -> None:
    """Count a request of this client. Raises TooManyAttempts."""
    rate_limited(limit.bucket, client_ip(request), limit.a_minute)


def rate_limited(bucket: str, key: str, limit: int) -> None:
    """Count an attempt of `key` in `bucket`, of which `limit` a minute are free.

    Raises TooManyAttempts (429 rate_limited); a refused attempt does not count.
    """
    wait_s = _count_request(_key_hash(bucket, key), limit)
    if wait_s:
        raise TooManyAttempts("too many requests; try again later", retry_after_s=wait_s)


def count_attempt(bucket: str, key: str, *, limit: int, window: timedelta) -> int:
    """Count in the store: 0 when within the limit, else the seconds until one would be."""
    return _store.count(_key_hash(bucket, key), limit=limit, window=window)


def clear_attempts(bucket: str, key: str) -> None:
    """Forget what the store counted."""
    _store.forget(_key_hash(bucket, key))


def _count_request(key_hash: str, limit: int) -> int:
    counter: AttemptCounter = RedisAttempts(redis) if (redis := shared_redis()) else _store
    try:
        return counter.count(key_hash, limit=limit, window=_MINUTE)
    except RedisAway:
        return _store.count(key_hash, limit=limit, window=_MINUTE)


def _key_hash(bucket: str, key: str) -> str:
    return hashlib.sha256(f"{bucket}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()
