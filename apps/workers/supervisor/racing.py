"""Waiting for the first of several things."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_of(
    *, timeout_s: float | None = None, **contenders: Coroutine[Any, Any, Any] | None
) -> str:
    """The name of the one that ended first (of several at once: the one named first), or "timeout".

    The others are canceled. Raises what the first one raised. None stands for no contender.
    """
    tasks = {name: asyncio.create_task(each) for name, each in contenders.items() if each}
    try:
        done, _ = await asyncio.wait(
            tasks.values(), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        for name, task in tasks.items():
            if task in done:
                task.result()
                return name
        return "timeout"
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
