"""How long a program may leave what a person typed unread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from worker.domain.runtime import ShellUnavailable
from worker.domain.shells import WRITE_S


@asynccontextmanager
async def limit_input() -> AsyncGenerator[None]:
    """Give the program WRITE_S to read what is written within. Raises ShellUnavailable."""
    try:
        async with asyncio.timeout(WRITE_S):
            yield
    except TimeoutError:
        raise ShellUnavailable(f"the program has not read its input for {WRITE_S:g} s") from None
