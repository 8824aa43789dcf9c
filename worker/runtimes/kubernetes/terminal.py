"""A program on a terminal in a container of a pod: one WebSocket with a channel for each stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Final

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from worker.domain.evaluation import KILLED
from worker.domain.shell_input import limit_input
from worker.domain.shells import READ_LIMIT, Shell, require_size
from worker.runtimes.kubernetes.exec_stream import CHUNK, RESIZE, RESULT, STDIN, STDOUT, exit_code

STARTED: Final = b"\x01"  # written before anything else: what is typed earlier would be lost
_START_S: Final = 20.0


class PodTerminal(Shell):
    """`end`: kills all that the program started."""

    def __init__(
        self, connection: ClientConnection, *, notice: str, end: Callable[[], Awaitable[None]]
    ) -> None:
        self.notice = notice
        self._connection = connection
        self._end = end
        self._rest = b""
        self._code = KILLED
        self._ended = asyncio.Event()
        self._is_closed = False

    async def until_started(self) -> None:
        """Return when the program has written STARTED, or has ended. Raises TimeoutError."""
        async with asyncio.timeout(_START_S):
            with contextlib.suppress(ConnectionClosed):
                while not self._rest and not self._ended.is_set():
                    self._take(await self._connection.recv(decode=False))
        self._rest = self._rest.removeprefix(STARTED)

    async def read(self) -> bytes:
        with contextlib.suppress(ConnectionClosed):
            while not self._rest and not self._ended.is_set():
                self._take(await self._connection.recv(decode=False))
        data, self._rest = self._rest[:READ_LIMIT], self._rest[READ_LIMIT:]
        if not data:  # a connection that breaks is the end, too: nobody can type any more
            self._ended.set()
        return data

    def _take(self, message: bytes) -> None:
        channel = message[0] if message else None
        if channel == STDOUT:
            self._rest = message[1:]
        elif channel == RESULT:
            self._code = exit_code(message[1:])
            self._ended.set()

    async def write(self, data: bytes) -> None:
        async with limit_input():
            for start in range(0, len(data), CHUNK):
                await self._send(STDIN, data[start : start + CHUNK])

    async def resize(self, *, columns: int, rows: int) -> None:
        require_size(columns, rows)
        await self._send(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    async def _send(self, channel: int, data: bytes) -> None:
        if self._ended.is_set() or self._is_closed:
            return
        with contextlib.suppress(ConnectionClosed):  # it ended; `read` tells
            await self._connection.send(bytes([channel]) + data)

    async def wait(self) -> int:
        await self._ended.wait()
        return self._code

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._end()
        finally:
            self._ended.set()
            await self._connection.close()
