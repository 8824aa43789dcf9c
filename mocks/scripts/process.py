"""One script process of the pool: started, asked over a socket, ended by force."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

START_S: Final = 10.0
_CHILD: Final = Path(__file__).with_name("child.py")
_PIECE: Final = 65_536
_LENGTH: Final = 4
_MAX_ANSWER: Final = 65_536
_SHORTEST_WAIT_S: Final = 0.005
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


class ProcessEnded(Exception):
    """The process has no answer: it took too long, or ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one call: processor seconds of the process, and seconds at most, however busy the host."""

    cpu_s: float
    wall_s: float
    memory: int
    instructions: int


class ScriptProcess:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._psutil = import_module("psutil")  # here, on a thread: it takes time
        self._cpu = 0.0  # used before this call
        self._received = bytearray()
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(0)
        arguments = [str(limits.memory), str(limits.instructions)]
        # S603: the program is this Python and a file of ours; scripts go to its stdin.
        # -I: the child sees neither the environment nor the current folder.
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", str(_CHILD), *arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,  # without Ctrl-C from the terminal
            )

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    async def is_ready(self) -> bool:
        """Wait until it reads; return False when it does not."""
        try:
            async with asyncio.timeout(START_S):
                await self._frame()
        except (TimeoutError, ProcessEnded):
            return False
        return True

    async def ask(self, document: bytes) -> dict[str, Any]:
        """Return the answer to a request; raise ProcessEnded, the process must then be killed."""
        exchange = asyncio.ensure_future(self._exchange(document))
        begun, rounds, patience = time.monotonic(), 0, self._limits.cpu_s
        try:
            # Two rounds at least: the answer may have come while this loop was busy itself.
            while rounds < 2 or time.monotonic() - begun < self._limits.wall_s:  # noqa: PLR2004
                await asyncio.wait({exchange}, timeout=max(patience, _SHORTEST_WAIT_S))
                if exchange.done():
                    answer = exchange.result()
                    self._cpu = answer["cpu"]
                    return answer
                rounds += 1
                patience = self._limits.cpu_s - (self._cpu_now() - self._cpu)
                if patience <= 0 and rounds > 1:
                    break
            raise ProcessEnded
        finally:
            exchange.cancel()
            await asyncio.wait({exchange})  # so that the loop watches the socket no longer

    async def _exchange(self, document: bytes) -> dict[str, Any]:
        frame = len(document).to_bytes(_LENGTH) + document
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, frame)
        except OSError:
            raise ProcessEnded from None
        return await self._frame()

    async def _frame(self) -> dict[str, Any]:
        while (size := self._size()) is None:
            try:
                piece = await asyncio.get_running_loop().sock_recv(self._socket, _PIECE)
            except OSError:
                piece = b""
            if not piece or len(self._received) > _MAX_ANSWER:
                raise ProcessEnded
            self._received += piece
        frame = bytes(self._received[_LENGTH:size])
        self._received.clear()
        return _decoder.decode(frame)

    def _size(self) -> int | None:
        """Return where the frame ends, once all of it is there."""
        size = _LENGTH + int.from_bytes(self._received[:_LENGTH])
        is_whole = len(self._received) >= _LENGTH and len(self._received) >= size
        return size if is_whole else None

    def _cpu_now(self) -> float:
        try:
            times = self._psutil.Process(self._process.pid).cpu_times()
        except self._psutil.Error:
            return self._cpu
        return float(times.user + times.system)

    def end(self) -> None:
        """End the process while a call may still read: from any thread."""
        self._process.kill()

    def kill(self) -> None:
        """End a process that no call reads from."""
        self._socket.close()
        self._process.kill()

    def has_ended(self) -> bool:
        """Return whether the process is gone, and remove what is left of it."""
        return self._process.poll() is not None

    def wait(self) -> None:
        self._process.wait()
