"""A runtime that opens shells in memory: a program echoes what is typed, and obeys a few words.

A line that is typed ends with `\\r`. `exit N` ends the program, `flood N` writes N bytes, `size`
prints the size of the terminal; any other line is printed again after `said: `.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tests.support.fake_runtime import FakeRuntime
from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import RuntimeUnavailable, ShellUnavailable, Unit, UnitState
from worker.domain.shells import READ_LIMIT, Shell, ShellRequest

PROMPT = b"$ "


@dataclass
class FakeShell(Shell):
    """The program of one shell."""

    request: ShellRequest
    unit: Unit
    notice: str = ""
    written: bytearray = field(default_factory=bytearray)
    read_bytes: int = 0
    closed: bool = False
    _line: bytearray = field(default_factory=bytearray)
    _output: bytearray = field(default_factory=lambda: bytearray(PROMPT))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _exit_code: int | None = None
    failure: Exception | None = None

    async def read(self) -> bytes:
        while not self._output:
            if self.failure:
                raise self.failure
            if self._exit_code is not None:
                return b""
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._output[:READ_LIMIT])
        del self._output[:READ_LIMIT]
        self.read_bytes += len(data)
        return data

    async def write(self, data: bytes) -> None:
        self.written += data
        for byte in data:
            if byte == 4 and not self._line:
                self.exit(0)
            elif byte in b"\r\n":
                self.print(b"\r\n")
                self._obey(bytes(self._line).decode(errors="replace"))
                self._line.clear()
                self.print(PROMPT)
            else:
                self._line.append(byte)
                self.print(bytes([byte]))

    def _obey(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "exit":
            self.exit(int(rest or "0"))
        elif word == "flood":
            self.print(b"x" * int(rest))
        elif word == "size":
            self.print(f"{self.request.columns} x {self.request.rows}\r\n".encode())
        elif word:
            self.print(f"said: {line}\r\n".encode())

    def print(self, data: bytes) -> None:
        if self._exit_code is None:
            self._output += data
            self._changed.set()

    def exit(self, code: int) -> None:
        if self._exit_code is None:
            self._exit_code = code
        self._changed.set()

    def break_off(self, error: Exception) -> None:
        self.failure = error
        self._changed.set()

    async def resize(self, *, columns: int, rows: int) -> None:
        self.request = ShellRequest(
            shell_id=self.request.shell_id, command=self.request.command, columns=columns, rows=rows
        )

    async def wait(self) -> int:
        return 137 if self._exit_code is None else self._exit_code

    async def close(self) -> None:
        self.closed = True
        if self._exit_code is None:
            self._exit_code = 137
        self._changed.set()


class RuntimeWithShells(FakeRuntime):
    """Has the units that a test gives it; `opened`: the shells by their id, in order."""

    opens_shells: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Unit] = []
        self.opened: dict[str, FakeShell] = {}
        self.ended: list[UnitOwner] = []
        self.refusal = ""
        self.notice = ""

    def give_unit(self, run_id: str, step_id: str, *, attempt: int = 1) -> Unit:
        labels = {
            ownership.RUN_ID: run_id,
            ownership.STEP: step_id,
            ownership.ATTEMPT: str(attempt),
        }
        name = ownership.unit_name(run_id, step_id, attempt)
        unit = Unit(id=name, name=name, state=UnitState.ENDED, labels=labels)
        self.given.append(unit)
        return unit

    async def find(self, owner: UnitOwner) -> Sequence[Unit]:
        if self.away:
            raise RuntimeUnavailable("the fake runtime is away")
        return tuple(self.given)

    async def open_shell(self, unit: Unit, request: ShellRequest) -> Shell:
        if self.refusal:
            raise ShellUnavailable(self.refusal)
        shell = FakeShell(request=request, unit=unit, notice=self.notice)
        self.opened[request.shell_id] = shell
        return shell

    async def end_shells(self, owner: UnitOwner) -> int:
        if self.away:
            raise RuntimeUnavailable("the fake runtime is away")
        self.ended.append(owner)
        return 0
