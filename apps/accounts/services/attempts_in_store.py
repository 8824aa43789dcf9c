"""Attempts counted in the store.

Each attempt is a row, written before the rows of the window are counted: of any number at once,
on any number of replicas, never more than the limit get through. Use it outside a unit of work,
in which others' rows cannot be seen.
"""

from __future__ import annotations

from datetime import timedelta
from math import ceil

from apps.accounts.models import LimitHit
from kernel.clock import now


class StoreAttempts:
    """An AttemptCounter; also forgets."""

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

    def forget(self, key_hash: str) -> None:
        LimitHit.objects.filter(key_hash=key_hash).delete()
