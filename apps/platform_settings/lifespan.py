"""Platform settings at the start of a server: the file is imported, or the default stored."""

from __future__ import annotations

import asyncio
import logging

from django.db import DatabaseError, close_old_connections

from apps.operations.api import LifespanPart
from apps.platform_settings.services.changes import store_default
from apps.platform_settings.services.effective import current
from apps.streams.api import DatastoreUnavailable

_log = logging.getLogger("partita.platform_settings")


class SettingsPart(LifespanPart):
    """A store that is away is only logged: each read of the settings imports what is left."""

    async def start(self) -> None:
        await asyncio.to_thread(_prepare)


def _prepare() -> None:
    close_old_connections()
    try:
        if current().revision is None:
            store_default()
    except (DatabaseError, DatastoreUnavailable) as error:
        _log.warning("The platform settings could not be stored at the start: %s", error)
    finally:
        close_old_connections()
