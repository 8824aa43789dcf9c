"""Waiting for the first of several things."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any


async def first_of(
    *,
    timeout_s: float | None = None,
    **contenders: Coroutine[Any, Any, Any] | asyncio.Future[Any] | None,
) -> str:
    """The name of the one that ended first (of several at once: the one named first), or "timeout".

    The other coroutines are canceled; futures stay as they are, and cost no task. Raises what the
    first one raised. None stands for no contender.
    """
    racing = {name: asyncio.ensure_future(each) for name, each in contenders.items() if each}
    started = [each for name, each in racing.items() if each is not contenders[name]]
    try:
        done, _ = await asyncio.wait(
            racing.values(), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        for name, each in racing.items():
            if each in done:
                each.result()
                return name
        return "timeout"
    finally:
        await cancel_all(started)


async def cancel_all(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel those that still run and wait for their end; what any of them raised is dropped."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # looked at: it would else be logged as missed
        task.cancel()
    if running := [task for task in tasks if not task.done()]:
        await asyncio.gather(*running, return_exceptions=True)


def set_once(event: asyncio.Future[None]) -> None:
    """Wake whoever waits for it; no error when it is set already."""
    if not event.done():
        event.set_result(None)
