"""The gate of a pod that was started ahead: its program waits for a word on its stdin.

The stdin is a connection of this process through the API server, and closes for good with it
(`stdinOnce`): when this process ends, so does the gate. A network may break without a sign, so this
process also writes every few seconds, and a gate that reads nothing for a minute ends (decision
0062).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from worker.domain.gate_program import RELEASE
from worker.runtimes.kubernetes.exec_stream import STDIN
from worker.runtimes.kubernetes.pod_scripts import GATE_SILENCE_S

log = logging.getLogger("partita.workers")
_BEAT: Final = b"wait\n"
_BEAT_S: Final = GATE_SILENCE_S / 5
_ANSWER_S: Final = 5.0
_LINGER_S: Final = 2.0  # the word is on its way through the API server and the kubelet


class PodGate:
    """The gate of a pod whose container runs; `connection`: to the stdin of that container."""

    def __init__(self, connection: ClientConnection, pod: str) -> None:
        self._connection = connection
        self._pod = pod
        self._reading = asyncio.create_task(self._read(), name=f"read the gate of {pod}")
        self._beating = asyncio.create_task(self._beat(), name=f"hold the gate of {pod}")
        self._closing: asyncio.Task[None] | None = None

    @property
    def is_shut(self) -> bool:
        """Return whether the program cannot be released any more."""
        return self._reading.done() or self._connection.state is not State.OPEN

    async def _read(self) -> None:
        """Return when the connection is closed, as it is when the container ends."""
        with contextlib.suppress(ConnectionClosed):
            async for _ in self._connection:
                pass

    async def _beat(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(_BEAT_S)
                await self._write(_BEAT)

    async def _write(self, data: bytes) -> None:
        await self._connection.send(bytes([STDIN]) + data)

    async def release(self) -> bool:
        """Let the program run; return False if the gate is shut, and nothing will run.

        Once the word is under way, the gate's own end tells whether it arrived.
        """
        if self.is_shut:
            return False
        self._beating.cancel()
        try:
            await self._write(RELEASE)
            async with asyncio.timeout(_ANSWER_S):
                await (await self._connection.ping())  # the API server has the word now
        except (ConnectionClosed, TimeoutError) as error:
            log.warning("the release of %s may not have reached it: %s", self._pod, error)
        self._closing = asyncio.create_task(self._close_later(), name=f"leave {self._pod}")
        return True

    async def _close_later(self) -> None:
        await asyncio.wait([self._reading], timeout=_LINGER_S)
        await self.close()

    async def close(self) -> None:
        """Close the connection; what was not released never runs."""
        self._beating.cancel()
        await self._connection.close()
        await asyncio.gather(self._reading, self._beating, return_exceptions=True)

    async def leave(self) -> None:
        """Return when the connection of a released program is closed."""
        if self._closing:
            await asyncio.gather(self._closing, return_exceptions=True)
