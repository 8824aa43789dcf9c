"""Waits: for the first of several events, and for a control plane that does not answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from kernel.background import report_error
from worker.domain.control_plane import ControlPlaneUnavailable

T = TypeVar("T")
_FIRST_S: Final = 0.2
_LONGEST_S: Final = 5.0


async def first_of(
    *,
    timeout_s: float | None = None,
    **contenders: Coroutine[Any, Any, Any] | asyncio.Future[Any] | None,
) -> str:
    """Return the name of the contender that ends first, or "timeout"; raise its error.

    If several end at once, the one that is named first wins. The other coroutines are canceled;
    futures are left alone. None stands for no contender.
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
    """Cancel the tasks that still run and wait for them; ignore their errors."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # otherwise asyncio logs it as never retrieved
        task.cancel()
    if running := [task for task in tasks if not task.done()]:
        await asyncio.gather(*running, return_exceptions=True)


def set_once(event: asyncio.Future[None]) -> None:
    """Resolve the future unless it is already resolved."""
    if not event.done():
        event.set_result(None)


async def retry_until_answered(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat the call until it is answered. A job that waits too long loses its lease."""
    pause_s = _FIRST_S
    while True:
        try:
            return await call()
        except ControlPlaneUnavailable:
            report_error(optional=True)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))  # noqa: S311 - jitter
            pause_s = min(pause_s * 2, _LONGEST_S)
