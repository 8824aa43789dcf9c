"""Limits counted in the store: at most so many attempts of one key in a sliding window.

Each attempt is a row, written before the rows of the window are counted: of any number at once,
on any number of replicas, never more than the limit get through. Call these outside a unit of
work, in which others' rows cannot be seen.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Final

from django.http import HttpRequest

from apps.accounts.domain.errors import TooManyAttempts
from apps.accounts.models import LimitHit
from apps.system.api import client_ip
from kernel.clock import now

_MINUTE: Final = timedelta(minutes=1)


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
    wait_s = count_attempt(bucket, key, limit=limit, window=_MINUTE)
    if wait_s:
        raise TooManyAttempts("too many requests; try again later", retry_after_s=wait_s)


def count_attempt(bucket: str, key: str, *, limit: int, window: timedelta) -> int:
    """0 when the attempt is within the limit, else the seconds until one would be."""
    moment = now()
    hit = LimitHit.objects.create(key_hash=_key_hash(bucket, key), expires_at=moment + window)
    others = LimitHit.objects.filter(key_hash=hit.key_hash, expires_at__gt=moment)
    newest_first = others.exclude(pk=hit.pk).order_by("-expires_at")
    ends = list(newest_first.values_list("expires_at", flat=True)[:limit])
    if len(ends) < limit:
        return 0
    hit.delete()
    return max(1, ceil((ends[-1] - moment).total_seconds()))


def clear_attempts(bucket: str, key: str) -> None:
    LimitHit.objects.filter(key_hash=_key_hash(bucket, key)).delete()


def _key_hash(bucket: str, key: str) -> str:
    return hashlib.sha256(f"{bucket}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()
