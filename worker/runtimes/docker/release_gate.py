"""The gate of a container that was started ahead: its program waits for a release.

The container's first program waits for a word on its stdin, which is a connection of this process.
If that breaks, or this process ends, the gate ends without having run anything (decision 0060).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from worker.domain.gate_program import NOT_RELEASED, RELEASE, are_passed_on, gate_command
from worker.domain.runtime import Launch
from worker.runtimes.docker import engine_http
from worker.runtimes.docker.engine import EngineAddress
from worker.runtimes.docker.images import ImageConfiguration

_CONNECT_S: Final = 10.0
_WAIT: Final = f'read -r __word && [ "$__word" = release ] || exit {NOT_RELEASED}'


def gated_program(launch: Launch, image: ImageConfiguration) -> tuple[str, ...] | None:
    """Return what a container starts so that the program of a launch waits for its release.

    None if that would change the program: no program, or a variable that a shell would not pass on.
    """
    program = launch.program
    entrypoint = program.entrypoint or image.entrypoint
    own_command = () if program.entrypoint else image.command
    argv = (*entrypoint, *(program.arguments or own_command))
    if not argv or not are_passed_on((*launch.environment, *image.variables)):
        return None
    return gate_command(argv, _WAIT)


def container_changes(argv: Iterable[str]) -> Mapping[str, Any]:
    """Return the arguments of `create_container` that a gate needs.

    The health check of an image would run a program of it at once, and none is looked at of a task.
    """
    return {
        "entrypoint": list(argv),
        "command": [],
        "stdin_open": True,
        "healthcheck": {"test": ["NONE"]},
    }


class ReleaseGate:
    """The gate of a started container: it ends with this connection, or when the container ends."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ended: asyncio.Task[None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._ended = ended

    @property
    def is_shut(self) -> bool:
        """Return whether the container has ended, or cannot be reached any more."""
        return self._ended.done() or self._reader.at_eof() or self._writer.is_closing()

    async def release(self) -> None:
        """Let the program run. Raises OSError."""
        self._writer.write(RELEASE)
        await self._writer.drain()
        self.close()

    def close(self) -> None:
        """Close the connection; what was not released never runs."""
        self._ended.cancel()
        self._writer.close()


async def start_at_gate(
    address: EngineAddress, unit_id: str, start: Callable[[], Awaitable[None]]
) -> ReleaseGate:
    """Attach to the stdin of a created container, which closes with the connection, and start it.

    Raises what `start` does, OSError, TimeoutError, ConnectionBroken, EngineRefused.
    """
    path = f"/containers/{unit_id}/attach?stream=1&stdin=1"
    async with asyncio.timeout(_CONNECT_S):
        reader, writer = await engine_http.upgrade(address, path, {})
    try:
        await start()
    except BaseException:
        writer.close()
        raise
    waiting = _wait_for_end(address, unit_id)
    ended = asyncio.create_task(waiting, name=f"wait for the gate of {unit_id[:12]}")
    return ReleaseGate(reader, writer, ended)


async def _wait_for_end(address: EngineAddress, unit_id: str) -> None:
    """Return when the container has ended, or nobody can tell."""
    with contextlib.suppress(*engine_http.FAILURES):
        await engine_http.wait_for_end(address, unit_id)
