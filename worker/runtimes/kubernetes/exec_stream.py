"""The stream of a program in a container: a WebSocket with a channel for each of its streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from websockets.asyncio.client import ClientConnection

from worker.runtimes.kubernetes.objects import Status

STDIN, STDOUT, STDERR, RESULT, RESIZE = range(5)
CHUNK: Final = 32 * 1024
_STDERR_LIMIT: Final = 64 * 1024
_CANNOT_EXECUTE: Final = 126
_NOT_FOUND: Final = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    exit_code: int
    output: bytes = b""
    errors: bytes = b""


class ExecStream:
    """One program behind a WebSocket: the first byte of a message names its channel."""

    def __init__(self, connection: ClientConnection, take: Callable[[bytes], None] | None) -> None:
        self._connection = connection
        self._output = bytearray()
        self._errors = bytearray()
        self._take = take or self._output.extend

    async def run(self, stdin: bytes) -> ExecResult:
        """Send `stdin`; return the program's end. Raises OSError, WebSocketException."""
        sending = asyncio.create_task(self._send(stdin))
        try:
            return await self._receive()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, stdin: bytes) -> None:
        for start in range(0, len(stdin), CHUNK):
            await self._connection.send(bytes([STDIN]) + stdin[start : start + CHUNK])

    async def _receive(self) -> ExecResult:
        async for message in self._connection:
            data = message.encode() if isinstance(message, str) else message
            channel = data[0] if data else None
            if channel == STDOUT:
                self._take(data[1:])
            elif channel == STDERR and len(self._errors) < _STDERR_LIMIT:
                self._errors += data[1:]
            elif channel == RESULT:
                code = exit_code(data[1:])
                return ExecResult(
                    exit_code=code, output=bytes(self._output), errors=bytes(self._errors)
                )
        raise ConnectionResetError("the program's end is unknown")


def exit_code(data: bytes) -> int:
    """Return the exit code that a program's result says."""
    status = msgspec.json.decode(data, type=Status)
    if status.status == "Success":
        return 0
    for cause in status.details.causes if status.details else ():
        if cause.reason == "ExitCode":
            return int(cause.message)
    is_missing = "no such file" in status.message or "not found" in status.message
    return _NOT_FOUND if is_missing else _CANNOT_EXECUTE
