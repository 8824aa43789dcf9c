"""Shells as processes of this host: in the step's folder, with its variables, not isolated.

`terminal.py` is their parent. It ends them with this process, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pwd
import shutil
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from worker.domain.evaluation import KILLED
from worker.domain.runtime import RuntimeUnavailable, ShellUnavailable, UnitState
from worker.domain.shell_input import limit_input
from worker.domain.shells import READ_LIMIT, Shell, ShellRequest, require_size
from worker.runtimes.process.units import UnitFolder, end_shell

_TERMINAL: Final = str(Path(__file__).with_name("terminal.py"))
_START_S: Final = 20.0
_END_S: Final = 10.0
_TRIES: Final = 10
_PAUSE_S: Final = 0.02
_SHELLS: Final = ("bash", "sh")
_UNKNOWN_VARIABLES: Final = (
    " The variables of the step are missing: they are never stored, and the runner was started "
    "again after the step."
)
Watch = Callable[[int, Callable[[], object]], None]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProcessShell(Shell):
    """The master side of a terminal, and the socket to the parent of the program."""

    def __init__(self, master: int, control: Connection, *, claim: Path, notice: str) -> None:
        self.notice = notice
        self._master = master
        self._reader, self._writer = control
        self._claim = claim
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_closed = False
        self._code = KILLED
        self._waits = asyncio.Lock()

    async def read(self) -> bytes:
        loop = asyncio.get_running_loop()
        while not self._is_closed:
            await self._watch(loop.add_reader, loop.remove_reader)
            with contextlib.suppress(BlockingIOError):
                return self._read_terminal()
        return b""

    def _read_terminal(self) -> bytes:
        try:
            return b"" if self._is_closed else os.read(self._master, READ_LIMIT)
        except BlockingIOError:
            raise
        except OSError:  # nobody has the other side any more
            return b""

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with limit_input():
                while data and not self._is_closed:
                    try:
                        data = data[os.write(self._master, data) :]
                    except BlockingIOError:
                        await self._watch(loop.add_writer, loop.remove_writer)
        except OSError:  # it ended; `read` tells
            return

    async def _watch(self, add: Watch, remove: Callable[[int], bool]) -> None:
        """Return when the terminal is ready, or the shell is closed."""
        ready = asyncio.get_running_loop().create_future()
        self._waiting.add(ready)
        add(self._master, partial(_set, ready))
        try:
            await ready
        finally:
            self._waiting.discard(ready)
            if not self._is_closed:  # then the number may be another file's
                remove(self._master)

    async def resize(self, *, columns: int, rows: int) -> None:
        require_size(columns, rows)
        if not self._is_closed:
            set_size(self._master, columns, rows)

    async def wait(self) -> int:
        """Return when the parent has killed everything and is gone."""
        async with self._waits:
            with contextlib.suppress(OSError):
                while line := await self._reader.readline():
                    verb, _, rest = line.decode().strip().partition(" ")
                    self._code = int(rest) if verb == "exit" else self._code
            self._writer.close()
        return self._code

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._master)
        loop.remove_writer(self._master)
        for ready in self._waiting:
            _set(ready)
        os.close(self._master)
        with contextlib.suppress(OSError):
            self._writer.write_eof()
        try:
            async with asyncio.timeout(_END_S):
                await self.wait()
        except TimeoutError:
            raise RuntimeUnavailable("processes of the shell do not end") from None
        finally:
            self._writer.close()
        if self._claim.exists():  # the parent was killed before it killed the others
            await asyncio.to_thread(end_shell, self._claim)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class ProcessShells:
    """Opens shells, and remembers the variables of the steps that this process started.

    They may be secrets, and are never stored.
    """

    def __init__(self) -> None:
        self._environments: dict[Path, Mapping[str, str]] = {}
        self._claims: set[Path] = set()

    def remember(self, folder: UnitFolder, environment: Mapping[str, str]) -> None:
        self._environments[folder.path] = environment

    def forget(self, folder: UnitFolder) -> None:
        self._environments.pop(folder.path, None)

    async def open(
        self, folder: UnitFolder, request: ShellRequest, *, base: Mapping[str, str]
    ) -> ProcessShell:
        """`base`: the variables of every step. Raises ShellUnavailable, RuntimeUnavailable."""
        notice = _notice()
        known = self._environments.get(folder.path)
        known = known or await asyncio.to_thread(running_environment, folder)
        environment = known or {**base, **request.environment}
        if not known and not request.environment:
            notice += _UNKNOWN_VARIABLES
        environment = {**environment, **request.variables}
        order = {
            "argv": request.command or _interactive(environment),
            "cwd": str(folder.step),
            "env": environment,
        }
        claim = folder.shells / request.shell_id
        self._claims = {claim, *(each for each in self._claims if each.exists())}
        try:
            master, control = await _start(folder, claim, order, request)
        except BaseException:
            self._claims.discard(claim)
            raise
        return ProcessShell(master, control, claim=claim, notice=notice)

    def end_earlier(self, folder: UnitFolder) -> int:
        """End the shells in a unit that this process did not open; return how many."""
        left = [claim for claim in folder.shells.glob("*") if claim not in self._claims]
        for claim in left:
            end_shell(claim)
        return len(left)


def _notice() -> str:
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    return (
        f"Not isolated: this shell is a process of the host {socket.gethostname()}, run as its "
        f"user {user}."
    )


def running_environment(folder: UnitFolder) -> dict[str, str]:
    """Return the variables of a program of the step that runs; empty if none does.

    The kernel tells none of a program in the moment in which it starts.
    """
    for _ in range(_TRIES):
        for process in folder.members():
            with contextlib.suppress(psutil.Error):
                if environment := process.environ():
                    return dict(environment)
        if folder.unit().state is not UnitState.RUNNING:
            break
        time.sleep(_PAUSE_S)
    return {}


def _interactive(environment: Mapping[str, str]) -> tuple[str, ...]:
    path = environment.get("PATH", os.defpath)
    found = next(filter(None, (shutil.which(name, path=path) for name in _SHELLS)), None)
    if found is None:
        raise ShellUnavailable(f"neither bash nor sh is in {path}")
    return (found,)


async def _start(
    folder: UnitFolder, claim: Path, order: Mapping[str, object], request: ShellRequest
) -> tuple[int, Connection]:
    """Start the program on a new terminal; return the master side and the control connection.

    Raises ShellUnavailable.
    """
    master, terminal = os.openpty()
    os.set_blocking(master, False)
    set_size(terminal, request.columns, request.rows)
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    answer = ""
    try:
        async with asyncio.timeout(_START_S):
            await _spawn(claim, [terminal, theirs.detach(), *_unit_descriptor(folder)], order)
            answer = (await reader.readline()).decode().strip()
    except TimeoutError:
        raise ShellUnavailable(f"the program did not start within {_START_S:g} s") from None
    finally:
        if answer != "started":
            os.close(master)
            writer.close()
    if answer != "started":
        reason = answer.split(" ", 2)[-1] or "its parent ended"
        raise ShellUnavailable(f"the program could not be started: {reason}")
    return master, (reader, writer)


def _unit_descriptor(folder: UnitFolder) -> list[int]:
    """Return a descriptor that becomes readable when the unit ends; none of one that has ended."""
    wrapper = folder.wrapper()
    if wrapper is None or folder.unit().state is not UnitState.RUNNING:
        return []
    try:
        return [os.pidfd_open(wrapper.pid)]
    except ProcessLookupError:
        return []


async def _spawn(claim: Path, descriptors: list[int], order: Mapping[str, object]) -> None:
    """Start the parent of the program, and give it the descriptors: they are closed here."""
    try:
        starter = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", _TERMINAL, str(claim), *map(str, descriptors),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            pass_fds=descriptors,
            start_new_session=True,
        )  # fmt: skip
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    assert starter.stdin is not None
    starter.stdin.write(json.dumps(order).encode())
    starter.stdin.close()
    await starter.wait()  # it leaves a child that is nobody's


def set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
