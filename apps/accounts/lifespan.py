"""What accounts does while a server runs: the first administrator, and clearing what ended."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Final

from django.db import DatabaseError, close_old_connections

from apps.accounts.services.purge import purge_expired
from apps.accounts.services.sign_up import ensure_seed_admin
from apps.streams.api import DatastoreUnavailable
from apps.system.api import LifespanPart
from kernel.background import keep_running

_TIDY_EVERY_S: Final = 600
_log = logging.getLogger("partita.accounts")


class AccountsPart(LifespanPart):
    """Neither a start nor a request fails because the store is away for a while."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await _tidy_up()
        repeating = keep_running("accounts", _repeatedly)
        self._task = asyncio.create_task(repeating, context=contextvars.Context())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def _repeatedly() -> None:
    while True:
        await asyncio.sleep(_TIDY_EVERY_S)
        await _tidy_up()


async def _tidy_up() -> None:
    try:
        await asyncio.to_thread(_seed_and_purge)
    except (DatabaseError, DatastoreUnavailable) as error:
        _log.warning("accounts could not be tidied up, will try again: %s", error)


def _seed_and_purge() -> None:
    close_old_connections()
    if ensure_seed_admin():
        _log.info("made the first administrator")
    purge_expired()
    close_old_connections()
