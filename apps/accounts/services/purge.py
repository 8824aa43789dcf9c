"""Rows that ended."""

from __future__ import annotations

from datetime import timedelta

from apps.accounts.models import LimitHit, RefreshFamily, RevokedToken, StreamTicket, UiSession
from kernel.clock import now

_DAY = timedelta(days=1)


def purge_expired() -> int:
    """Delete them; the number of rows. A family's tokens go with it, a day after its last."""
    moment = now()
    ended = [
        RefreshFamily.objects.filter(expires_at__lt=moment - _DAY),
        *(
            model.objects.filter(expires_at__lt=moment)
            for model in (LimitHit, RevokedToken, StreamTicket, UiSession)
        ),
    ]
    return sum(rows.delete()[0] for rows in ended)
