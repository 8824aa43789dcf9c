"""Somebody at a terminal: types lines into a shell and reads what it prints."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from worker.domain.shells import Shell

_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")  # colors, the cursor, bracketed paste


class Terminal:
    """`seen`: all that was printed so far, without control sequences."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.raw = b""

    @property
    def seen(self) -> str:
        return _CONTROL.sub(b"", self.raw).replace(b"\r", b"").decode(errors="replace")

    async def type(self, text: str) -> None:
        await self.shell.write(text.encode())

    async def until(self, text: str, *, within_s: float = 15) -> str:
        """Read until the text was printed, and return all; it must not be what was typed."""
        try:
            async with asyncio.timeout(within_s):
                while text not in self.seen:
                    data = await self.shell.read()
                    assert data, f"it ended without {text!r}: {self.seen}"
                    self.raw += data
        except TimeoutError:
            raise AssertionError(f"not within {within_s:g} s: {text!r} in {self.seen!r}") from None
        return self.seen

    async def to_the_end(self, *, within_s: float = 15) -> str:
        async with asyncio.timeout(within_s):
            while data := await self.shell.read():
                self.raw += data
        return self.seen


@asynccontextmanager
async def terminal(shell: Shell) -> AsyncGenerator[Terminal]:
    """Close the shell at the end."""
    try:
        yield Terminal(shell)
    finally:
        await shell.close()
