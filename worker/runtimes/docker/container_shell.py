"""A program on the terminal of a hijacked connection to the engine, without a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final

from worker.domain.evaluation import KILLED
from worker.domain.runtime import RuntimeUnavailable
from worker.domain.shell_input import limit_input
from worker.domain.shells import READ_LIMIT, Shell, require_size
from worker.runtimes.docker.engine import APIError, ContainerEngine, NotFound

COPY_NOTICE: Final = (
    "This is a copy of the ended step: its files as it left them, its variables, volumes and "
    "network. Files that you change outside of the volumes are gone when the shell is closed."
)
_TRIES: Final = 20
_PAUSE_S: Final = 0.1


class ContainerShell(Shell):
    """`program`: the engine's id of what runs; `end`: kills it with all that it started."""

    def __init__(
        self,
        engine: ContainerEngine,
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        program: str,
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._reader, self._writer = connection
        self._program = program
        self._end = end
        self._ended = asyncio.Event()
        self._code = KILLED
        self._is_closed = False

    @abstractmethod
    def _state(self, client: Any) -> tuple[bool, int]:
        """Return whether the program runs or is about to, and its exit code. Raises APIError."""

    @abstractmethod
    def _set_size(self, client: Any, columns: int, rows: int) -> None:
        """Raises APIError, also if the program does not run yet."""

    async def read(self) -> bytes:
        data = b""
        with contextlib.suppress(OSError):
            data = await self._reader.read(READ_LIMIT)
        if not data and not self._ended.is_set():
            await self._read_end()
        return data

    async def _read_end(self) -> None:
        """Read the exit code; the engine knows it a moment after the end of the output."""
        for _ in range(_TRIES):
            if self._is_closed:
                return
            runs, code = await self._look()
            if not runs:
                self._code = code
                self._ended.set()
                return
            await asyncio.sleep(_PAUSE_S)
        raise RuntimeUnavailable("the connection to the shell broke")

    async def _look(self) -> tuple[bool, int]:
        try:
            return await self._engine.call(self._state, retry=False)
        except NotFound:  # with its container
            return False, KILLED

    async def write(self, data: bytes) -> None:
        if self._ended.is_set() or self._is_closed:
            return
        try:
            async with limit_input():
                for start in range(0, len(data), READ_LIMIT):
                    self._writer.write(data[start : start + READ_LIMIT])
                    await self._writer.drain()
        except OSError:  # it ended; `read` tells
            return

    async def resize(self, *, columns: int, rows: int) -> None:
        """Set the size, again until the program runs: the engine refuses it before."""
        require_size(columns, rows)
        for _ in range(_TRIES):
            if self._ended.is_set() or self._is_closed:
                return
            with contextlib.suppress(APIError):
                await self._engine.call(
                    lambda client: self._set_size(client, columns, rows), retry=False
                )
                return
            if not (await self._look())[0]:
                return
            await asyncio.sleep(_PAUSE_S)

    async def wait(self) -> int:
        await self._ended.wait()
        return self._code

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._writer.close()
        try:
            if not self._ended.is_set():
                runs, code = await self._look()
                self._code = KILLED if runs else code
            await self._end()
        finally:
            self._ended.set()


class ExecShell(ContainerShell):
    """A program that was started in the container of a unit that runs."""

    def _state(self, client: Any) -> tuple[bool, int]:
        found = client.exec_inspect(self._program)
        code = found["ExitCode"]
        return bool(found["Running"]) or code is None, int(code or 0)

    def _set_size(self, client: Any, columns: int, rows: int) -> None:
        client.exec_resize(self._program, height=rows, width=columns)


class CopyShell(ContainerShell):
    """The entry of a container that was made for it."""

    notice = COPY_NOTICE

    def _state(self, client: Any) -> tuple[bool, int]:
        state = client.inspect_container(self._program)["State"]
        return state["Status"] in ("created", "running", "paused"), int(state["ExitCode"])

    def _set_size(self, client: Any, columns: int, rows: int) -> None:
        client.resize(self._program, height=rows, width=columns)
