"""Futures of another thread, awaited on an event loop that wakes once for all that resolve at once.

`asyncio.wrap_future` wakes the loop for each future. A report batch resolves about thirty in a row,
and the two threads then took the interpreter from each other for each of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import Any


class FutureBridge:
    """`await bridge.result_of(future)`, always on the same event loop."""

    def __init__(self) -> None:
        self._resolved: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_scheduled = False

    async def result_of(self, future: Future[Any]) -> Any:
        """Return its result or raise its error. A cancellation here cancels the future too."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()
        future.add_done_callback(partial(self._resolve_soon, loop, waiter))
        try:
            return await waiter
        finally:
            future.cancel()  # has no effect on a future that is resolved

    def _resolve_soon(
        self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[Any], future: Future[Any]
    ) -> None:
        self._resolved.append((waiter, future))
        if not self._is_scheduled and not loop.is_closed():
            self._is_scheduled = True
            loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        self._is_scheduled = False  # first: a future that resolves from now on schedules again
        while self._resolved:
            waiter, future = self._resolved.popleft()
            if waiter.done():
                continue
            if error := future.exception():
                waiter.set_exception(error)
            else:
                waiter.set_result(future.result())
