"""The hub's life in a server: up with it, drained before it stops."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from apps.streams.services.hub import hub_here, stop_hub
from apps.streams.services.responses import open_streams
from apps.streams.services.stream_leases import leases_here
from apps.system.api import LifespanPart

DRAIN_S: Final = 9.0  # of the 10 s that streams get
TELL_S: Final = 1.0


class StreamsPart(LifespanPart):
    async def start(self) -> None:
        hub_here()

    async def drain(self) -> None:
        """Streams end on a whole record; who does not take it in time is cut by the server."""
        hub_here().drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(open_streams.none_left(), DRAIN_S)

    async def stop(self) -> None:
        await stop_hub()
        if leases := leases_here():
            await asyncio.to_thread(leases.wait_until_told, timeout_s=TELL_S)
