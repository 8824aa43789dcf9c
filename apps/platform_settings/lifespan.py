"""Platform settings in a server: the file is imported at the start, and looked at now and then."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Final

from django.db import DatabaseError

from apps.operations.api import LifespanPart
from apps.platform_settings.services.changes import store_default
from apps.platform_settings.services.effective import current
from apps.streams.api import DatastoreUnavailable, release_stale_connection, then_disconnect
from kernel.background import keep_running, one_cycle, report_error

_INTERVAL_S: Final = 5.0
_log = logging.getLogger("partita.platform_settings")


class SettingsPart(LifespanPart):
    """A store that is away is only logged.

    The loop refreshes what requests take from memory, so that they need no store for it.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await asyncio.to_thread(then_disconnect, _prepare)
        loop = keep_running("platform-settings", _refresh_periodically)
        self._task = asyncio.create_task(loop, context=contextvars.Context())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def _refresh_periodically() -> None:
    while True:
        await asyncio.sleep(_INTERVAL_S)
        with one_cycle():
            await asyncio.to_thread(then_disconnect, _prepare)


def _prepare() -> None:
    """Import a new file, or store the default where nothing is stored."""
    try:
        release_stale_connection()
        if current().revision is None:
            store_default()
    except (DatabaseError, DatastoreUnavailable) as error:
        _log.warning("The platform settings could not be read and will be again: %s", error)
        report_error()
