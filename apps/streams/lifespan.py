"""Starts the hub with a server, and drains it before the server stops."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from apps.operations.api import LifespanPart
from apps.streams.services.hub import process_hub, stop_hub
from apps.streams.services.responses import open_streams
from apps.streams.services.stream_leases import process_leases

DRAIN_S: Final = 9.0  # of the 10 s that streams get
RELEASE_S: Final = 1.0


class StreamsPart(LifespanPart):
    async def start(self) -> None:
        process_hub()

    async def drain(self) -> None:
        """End streams after a whole record; the server closes those that do not read it in time."""
        process_hub().drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(open_streams.wait_until_empty(), DRAIN_S)

    async def stop(self) -> None:
        await stop_hub()
        if leases := process_leases():
            await asyncio.to_thread(leases.flush, timeout_s=RELEASE_S)
