"""A program that the engine runs in a container, with its input and output on one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from worker.runtimes.docker import engine_http
from worker.runtimes.docker.address import EngineAddress, connect
from worker.runtimes.log_frames import HEADER

_STDERR: Final = 2
_BODY: Final = b'{"Detach":false,"Tty":false}'
_SAID_LIMIT: Final = 4096


class Attached:
    """`said`: the last of what the program wrote to stderr."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.said = b""

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def output(self) -> AsyncGenerator[bytes]:
        """What the program writes to stdout, until it ends."""
        while True:
            try:
                stream, length = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                data = await self._reader.readexactly(length)
            except asyncio.IncompleteReadError:
                return
            if stream == _STDERR:
                self.said = (self.said + data)[-_SAID_LIMIT:]
            else:
                yield data


@asynccontextmanager
async def attach(address: EngineAddress, program: str) -> AsyncGenerator[Attached]:
    """Start a created exec; the caller sets the limit.

    Raises OSError, ConnectionBroken, EngineRefused.
    """
    reader, writer = await connect(address)
    try:
        writer.write(
            f"POST /exec/{program}/start HTTP/1.1\r\nHost: docker\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(_BODY)}\r\n\r\n".encode()
            + _BODY
        )
        await engine_http.head(reader, accepted=(101, 200))
        yield Attached(reader, writer)
    finally:
        writer.close()
