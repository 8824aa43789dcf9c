"""Mocks in a server: the thread that refreshes spaces, connections and journal until the end."""

from __future__ import annotations

import asyncio

from apps.mocks.wiring import parts
from apps.operations.api import LifespanPart


class MocksPart(LifespanPart):
    async def start(self) -> None:
        made = parts()
        made.loop = asyncio.get_running_loop()
        made.spaces.start()

    async def stop(self) -> None:
        made = parts()
        made.loop = None
        await made.close()
