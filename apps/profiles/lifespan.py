"""The import of svc-profiles.yaml at the start of a server."""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from apps.operations.api import LifespanPart
from apps.profiles.services.profiles_file import take_over_file
from apps.streams.api import then_disconnect
from kernel.background import BackgroundThread

_PATIENCE_S: Final = 2.0


class ProfilesFilePart(LifespanPart):
    """Takes over the file; while the store is away, that waits and the server starts without."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    async def start(self) -> None:
        thread = BackgroundThread(
            "profiles-file", lambda: then_disconnect(take_over_file), ended=self._ended
        )
        thread.start()
        await asyncio.to_thread(thread.join, _PATIENCE_S)

    async def stop(self) -> None:
        self._ended.set()
