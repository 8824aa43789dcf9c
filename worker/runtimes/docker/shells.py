"""Shells in containers: an exec where the unit runs, else a copy of the unit (decision 0051)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import (
    BUSYBOX,
    RuntimeOptions,
    RuntimeUnavailable,
    ShellUnavailable,
    Unit,
    UnitLost,
)
from worker.domain.shells import Shell, ShellRequest
from worker.runtimes.docker import engine_http, unit_copies
from worker.runtimes.docker.container_shell import CopyShell, ExecShell
from worker.runtimes.docker.engine import APIError, ContainerEngine, NotFound, explanation
from worker.runtimes.docker.engine_http import ConnectionBroken, EngineRefused
from worker.runtimes.docker.marked_processes import MarkedProcesses
from worker.runtimes.docker.run_environment import filters
from worker.runtimes.docker.toolbox import APPLETS, Toolbox

_BASH_IF_THERE: Final = 'command -v bash >/dev/null 2>&1 && exec bash; exec "$0"'
_CONNECT_S: Final = 20.0
_CONFLICT: Final = 409
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ContainerShells:
    """Opens shells, and ends what an earlier process left of its own.

    What runs inside a unit is recorded in `state_dir` before it starts; copies and their images
    are found by label.
    """

    def __init__(self, engine: ContainerEngine, toolbox: Toolbox, options: RuntimeOptions) -> None:
        self._engine = engine
        self._installation_id = options.installation_id
        self._toolbox = toolbox
        self._processes = MarkedProcesses(engine, self._toolbox)
        self._records = options.state_dir / "shells"
        self._open: set[str] = set()

    async def open(self, unit: Unit, request: ShellRequest, *, is_running: bool) -> Shell:
        """Open a shell; in a copy also if the unit ends meanwhile.

        Raises ShellUnavailable, UnitLost, RuntimeUnavailable.
        """
        self._open.add(request.shell_id)
        with _shell_errors(unit):
            try:
                shell = await self._open_inside(unit, request) if is_running else None
                shell = shell or await self._open_copy(unit, request)
            except BaseException:
                self._open.discard(request.shell_id)
                raise
        try:
            await shell.resize(columns=request.columns, rows=request.rows)
        except BaseException:
            await shell.close()
            raise
        return shell

    async def _open_inside(self, unit: Unit, request: ShellRequest) -> Shell | None:
        """Return None if the unit has just ended."""
        own = await self._processes.find_shell(unit.id)
        if not own:
            await self._toolbox.put(unit.id, ownership.without_step(unit.labels))
        variables = request.variables | await self._path(unit, own)
        argv = request.command or _interactive(own)
        self._record(unit, request)
        try:
            created = await self._engine.call(
                lambda client: client.exec_create(
                    unit.id, list(argv), stdin=True, tty=True, environment=variables
                )
            )
            program = str(created["Id"])
            content = {"Tty": True, "ConsoleSize": [request.rows, request.columns]}
            connection = await self._connect(f"/exec/{program}/start", content)
        except BaseException as error:
            await self._end_inside(unit, request.shell_id)
            if _is_conflict(error):
                return None
            raise
        return ExecShell(
            self._engine,
            connection,
            program=program,
            end=lambda: self._end_inside(unit, request.shell_id),
        )

    async def _open_copy(self, unit: Unit, request: ShellRequest) -> Shell:
        own = await self._processes.find_shell(unit.id)
        variables = request.variables | await self._path(unit, own)
        argv = request.command or _interactive(own)
        try:
            image = await self._engine.call(
                lambda client: unit_copies.commit(client, unit, request.shell_id), retry=False
            )
            container = await self._engine.call(
                lambda client: unit_copies.create(
                    client, unit, request, image=image, argv=argv, variables=variables
                ),
                retry=False,
            )
            if not own:
                await self._toolbox.put(container, ownership.without_step(unit.labels))
            streams = "stream=1&stdin=1&stdout=1&stderr=1"
            connection = await self._connect(f"/containers/{container}/attach?{streams}", {})
            await self._engine.call(lambda client: client.start(container))
        except BaseException:
            await self._end_copy(request.shell_id)
            raise
        return CopyShell(
            self._engine,
            connection,
            program=container,
            end=lambda: self._end_copy(request.shell_id),
        )

    async def _connect(
        self, path: str, content: Mapping[str, Any]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(_CONNECT_S):
            return await engine_http.upgrade(self._engine.address, path, content)

    async def _path(self, unit: Unit, own: tuple[str, ...]) -> dict[str, str]:
        """Return PATH with the applets behind the image's own programs, if it has no shell."""
        if own:
            return {}
        found = await self._engine.call(lambda client: client.inspect_container(unit.id))
        given = [each for each in found["Config"]["Env"] or () if each.startswith("PATH=")]
        path = given[-1].removeprefix("PATH=") if given else _PATH
        return {"PATH": f"{path}:{APPLETS}"}

    async def end_earlier(self, owner: UnitOwner) -> int:
        """End the owner's shells that this process has not open; return how many."""
        count = 0
        for path in sorted(self._records.glob("*.json")):
            record = json.loads(path.read_bytes())
            is_owners = record["labels"].get(ownership.ORCHESTRATOR) == owner.orchestrator_id
            if is_owners and path.stem not in self._open:
                await self._processes.kill(record["container"], path.stem, record["labels"])
                path.unlink(missing_ok=True)
                count += 1
        wanted = filters(owner, **{ownership.ORCHESTRATOR: owner.orchestrator_id})
        with _api_errors():
            removal = await self._engine.call(
                lambda client: unit_copies.remove_copies(client, wanted, keep=set(self._open))
            )
        return count + removal.copies

    def _record(self, unit: Unit, request: ShellRequest) -> None:
        self._records.mkdir(parents=True, exist_ok=True)
        scratch = self._records / f"{request.shell_id}.new"
        labels = ownership.without_step(unit.labels)
        scratch.write_text(json.dumps({"container": unit.id, "labels": labels}))
        scratch.replace(scratch.with_suffix(".json"))

    async def _end_inside(self, unit: Unit, shell_id: str) -> None:
        try:
            await self._processes.kill(unit.id, shell_id, ownership.without_step(unit.labels))
            (self._records / f"{shell_id}.json").unlink(missing_ok=True)
        finally:
            self._open.discard(shell_id)

    async def _end_copy(self, shell_id: str) -> None:
        owner = UnitOwner(installation_id=self._installation_id, orchestrator_id="", host_id="")
        wanted = filters(owner, **{ownership.SHELL: shell_id})
        try:
            with _api_errors():
                await self._engine.call(lambda client: unit_copies.remove_copies(client, wanted))
        finally:
            self._open.discard(shell_id)


def _interactive(own: tuple[str, ...]) -> tuple[str, ...]:
    return (*own, "-c", _BASH_IF_THERE, *own) if own else (BUSYBOX, "sh")


def _is_conflict(error: BaseException) -> bool:
    if isinstance(error, APIError):
        return bool(error.status_code == _CONFLICT)
    return isinstance(error, EngineRefused) and error.status == _CONFLICT


@contextlib.contextmanager
def _api_errors() -> Iterator[None]:
    try:
        yield
    except APIError as error:
        raise RuntimeUnavailable(explanation(error)) from error


@contextlib.contextmanager
def _shell_errors(unit: Unit) -> Iterator[None]:
    """Translate what goes wrong while a shell is opened to the port's errors."""
    try:
        yield
    except NotFound as error:
        raise UnitLost(f"container {unit.name} is gone") from error
    except APIError as error:
        raise ShellUnavailable(explanation(error)) from error
    except EngineRefused as error:
        if error.status == 404:  # noqa: PLR2004 - not found
            raise UnitLost(f"container {unit.name} is gone") from error
        raise ShellUnavailable(error.message or str(error)) from error
    except (OSError, TimeoutError, ConnectionBroken) as error:
        raise RuntimeUnavailable(f"the container runtime does not answer: {error}") from error
