"""Background work of accounts in a server: the first administrator and the removal of old rows."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from datetime import timedelta
from functools import partial
from typing import Final

from django.db import DatabaseError, close_old_connections

from apps.accounts.models import (
    ApiToken,
    CiSession,
    DeviceAuthorization,
    ExchangeCode,
    Invitation,
    LimitHit,
    PasswordReset,
    RefreshFamily,
    RevokedToken,
    StreamTicket,
    UiSession,
)
from apps.accounts.services.administrators import ensure_seed_admin
from apps.operations.api import LifespanPart
from apps.streams.api import DatastoreUnavailable
from kernel.background import keep_running, one_cycle, report_error
from kernel.clock import now

_INTERVAL_S: Final = 600
_AGAIN_S: Final = 10  # after the store was away
_DAY: Final = timedelta(days=1)
_log = logging.getLogger("partita.accounts")


def purge_expired() -> int:
    """Delete expired rows and return their number.

    A refresh family is deleted with its tokens, one day after the last of them expired.
    """
    moment = now()
    expired = [
        RefreshFamily.objects.filter(expires_at__lt=moment - _DAY),
        CiSession.objects.filter(kept_until__lt=moment),
        *(
            model.objects.filter(expires_at__lt=moment)
            for model in (
                ApiToken,
                DeviceAuthorization,
                ExchangeCode,
                Invitation,
                LimitHit,
                PasswordReset,
                RevokedToken,
                StreamTicket,
                UiSession,
            )
        ),
    ]
    return sum(rows.delete()[0] for rows in expired)


class AccountsPart(LifespanPart):
    """Does its work at the start and every ten minutes; an unavailable store is only logged."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        first_pause_s = _INTERVAL_S if await _maintain() else _AGAIN_S
        loop = keep_running("accounts", partial(_maintain_periodically, first_pause_s))
        self._task = asyncio.create_task(loop, context=contextvars.Context())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def _maintain_periodically(pause_s: float) -> None:
    while True:
        await asyncio.sleep(pause_s)
        with one_cycle():
            pause_s = _INTERVAL_S if await _maintain() else _AGAIN_S


async def _maintain() -> bool:
    """Create the first administrator and purge; return False while the store is away."""
    try:
        await asyncio.to_thread(_seed_and_purge)
    except (DatabaseError, DatastoreUnavailable) as error:
        _log.warning("The maintenance of accounts failed and will be repeated: %s", error)
        report_error()
        return False
    return True


def _seed_and_purge() -> None:
    close_old_connections()
    if ensure_seed_admin():
        _log.info("Created the first administrator")
    purge_expired()
    close_old_connections()
