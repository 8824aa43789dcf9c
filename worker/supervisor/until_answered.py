"""Retries of calls to a control plane that does not answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from worker.domain.control_plane import ControlPlaneUnavailable

T = TypeVar("T")
_FIRST_S: Final = 0.2
_LONGEST_S: Final = 5.0


async def retry_until_answered(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat the call until it is answered. A job that waits too long loses its lease."""
    pause_s = _FIRST_S
    while True:
        try:
            return await call()
        except ControlPlaneUnavailable:
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))  # noqa: S311 - jitter
            pause_s = min(pause_s * 2, _LONGEST_S)
