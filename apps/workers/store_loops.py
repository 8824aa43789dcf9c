"""What the runner's loops over rows have in common: nudges wake them, and the store may fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from django.db import DatabaseError

from apps.streams.api import DatastoreUnavailable, listen
from kernel.background import report_error
from kernel.errors import PlatformError

log = logging.getLogger("partita.workers")


@contextmanager
def wakes(nudge_name: str) -> Iterator[asyncio.Event]:
    """Provide an event that the nudge sets."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(woken.set)

    unlisten = listen(nudge_name, wake)
    try:
        yield woken
    finally:
        unlisten()


async def pause(woken: asyncio.Event, within_s: float) -> None:
    """Wait for the event, which is then unset, or for the time."""
    try:
        async with asyncio.timeout(within_s):
            await woken.wait()
    except TimeoutError:
        return
    woken.clear()


async def survive_store(work: Callable[[], Awaitable[None]], what: str) -> None:
    """Do the work; report and log an error of the store, after which the loop goes on."""
    try:
        await work()
    except (DatabaseError, DatastoreUnavailable) as error:
        log.warning("%s: waiting for the store: %s", what, error)
        report_error()
    except PlatformError as error:
        log.warning("%s: %s", what, error.detail)
        report_error()
