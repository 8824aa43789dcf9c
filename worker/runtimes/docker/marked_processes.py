"""The processes of a shell inside a container that runs, found by the mark in their environment.

An engine starts programs in a container, but kills none: a program inside does it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from worker.domain.runtime import BUSYBOX, RuntimeUnavailable
from worker.domain.shells import KILL_MARKED, MARK
from worker.runtimes.docker import engine_http
from worker.runtimes.docker.engine import APIError, ContainerEngine, NotFound
from worker.runtimes.docker.engine_http import ConnectionBroken, EngineRefused
from worker.runtimes.docker.toolbox import Toolbox

log = logging.getLogger("partita.workers")
SHELLS: Final = ("/bin/sh", "/usr/bin/sh")
_CONFLICT: Final = 409
_CANNOT_START: Final = 126
_LACKS_TOOLS: Final = (_CANNOT_START, 127)
_KILL_S: Final = 20.0
_OUTPUT_LIMIT: Final = 500


class MarkedProcesses:
    """Kills what the shells of a container left, by the container's own shell or by busybox.

    Found is what has the mark, what it started, and what is in a session of it. A program that
    cleared its environment and left session and parent is not found; it ends with its unit.
    """

    def __init__(self, engine: ContainerEngine, toolbox: Toolbox) -> None:
        self._engine = engine
        self._toolbox = toolbox

    async def find_shell(self, container: str) -> tuple[str, ...]:
        """Return the argv of the image's own shell; empty if it has none. Raises APIError."""
        for path in SHELLS:
            if await self._has(container, path):
                return (path,)
        return ()

    async def kill(self, container: str, shell_id: str, labels: Mapping[str, str]) -> None:
        """Hang up and kill the processes of a shell; nothing to do in a container that ended.

        Raises RuntimeUnavailable, ShellUnavailable.
        """
        try:
            own = await self.find_shell(container)
            code, text = await self._run(container, own, shell_id) if own else (127, "")
            if code in _LACKS_TOOLS:
                if not await self._has(container, BUSYBOX):
                    await self._toolbox.put(container, labels)
                code, text = await self._run(container, (BUSYBOX, "sh"), shell_id)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != _CONFLICT:
                raise
            return
        if code:
            log.warning("shell %s: processes are left in %s: %s", shell_id, container[:12], text)

    async def _run(self, container: str, shell: tuple[str, ...], shell_id: str) -> tuple[int, str]:
        """Run the script; return its exit code and the end of its output.

        Whatever the step made of its shell, it costs neither memory nor more than a minute.
        """
        argv = [*shell, "-c", KILL_MARKED, "sh", f"{MARK}={shell_id}"]
        created = await self._engine.call(lambda client: client.exec_create(container, argv))
        program, output = str(created["Id"]), b""
        try:
            async with (
                asyncio.timeout(_KILL_S),
                engine_http.attach(self._engine.address, program) as running,
            ):
                async for data in running.output():
                    output = (output + data)[-_OUTPUT_LIMIT:]
        except TimeoutError:
            return 1, f"not killed within {_KILL_S:g} s"
        except (OSError, ConnectionBroken) as error:
            raise RuntimeUnavailable(f"the container runtime does not answer: {error}") from error
        except EngineRefused as error:
            return (0 if error.status == _CONFLICT else _CANNOT_START), error.message
        ended = await self._engine.call(lambda client: client.exec_inspect(program))
        return int(ended["ExitCode"] or 0), output.decode(errors="replace").strip()

    async def _has(self, container: str, path: str) -> bool:
        try:
            return await engine_http.exists(
                self._engine.address, f"/containers/{container}/archive?path={quote(path)}"
            )
        except (OSError, TimeoutError, ConnectionBroken) as error:
            raise RuntimeUnavailable(f"the container runtime does not answer: {error}") from error
        except EngineRefused as error:
            raise RuntimeUnavailable(error.message or str(error)) from error
