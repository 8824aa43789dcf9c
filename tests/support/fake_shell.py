"""A shell of the runtime in memory: a terminal that echoes, and a few commands.

`echo WORDS` (with `$NAME`), `cat FILE`, `pwd`, `stty size`, `seq 1 N`, `sleep SECONDS` and
`exit CODE`. Ctrl-C ends what sleeps. A file is named as in the step's directory, or absolutely.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from worker.domain.runtime import STEP_DIRECTORY, ShellUnavailable
from worker.domain.shells import READ_LIMIT, Shell, ShellRequest, require_size

KILLED = 137
INTERRUPT = b"\x03"
PROMPT = b"$ "
_BUFFER_LIMIT = 4 * READ_LIMIT


class FakeShell(Shell):
    """`hold` keeps it from reading, as a program that is busy; `typed`: all that was written."""

    def __init__(
        self, request: ShellRequest, variables: Mapping[str, str], files: Mapping[str, str]
    ) -> None:
        self.request = request
        self.size = (request.columns, request.rows)
        self.typed = b""
        self.is_closed = False
        self._variables = {**variables, **request.variables}
        self._files = files
        self._buffer = bytearray()
        self._changed = asyncio.Condition()
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._code: int | None = None
        self._task = asyncio.create_task(self._run())

    async def read(self) -> bytes:
        async with self._changed:
            await self._changed.wait_for(lambda: self._buffer or self._code is not None)
            data = bytes(self._buffer[:READ_LIMIT])
            del self._buffer[:READ_LIMIT]
            self._changed.notify_all()
            return data

    async def write(self, data: bytes) -> None:
        self.typed += data
        if self._code is None:
            await self._input.put(data)

    async def resize(self, *, columns: int, rows: int) -> None:
        require_size(columns, rows)
        self.size = (columns, rows)

    async def wait(self) -> int:
        async with self._changed:
            await self._changed.wait_for(lambda: self._code is not None)
        assert self._code is not None
        return self._code

    async def close(self) -> None:
        self.is_closed = True
        await self.end(KILLED)

    async def end(self, code: int) -> None:
        """End as when its unit ends."""
        self._task.cancel()
        async with self._changed:
            self._code = code if self._code is None else self._code
            self._changed.notify_all()

    async def say(self, data: bytes) -> None:
        """Print; wait while nobody reads, as a terminal does."""
        for start in range(0, len(data), READ_LIMIT):
            async with self._changed:
                await self._changed.wait_for(lambda: len(self._buffer) < _BUFFER_LIMIT)
                self._buffer += data[start : start + READ_LIMIT]
                self._changed.notify_all()

    async def _run(self) -> None:
        if self.request.command:
            code = await self._execute(" ".join(self.request.command))
        else:
            code = await self._interact()
        async with self._changed:
            self._code = code
            self._changed.notify_all()

    async def _interact(self) -> int:
        line = b""
        await self.say(PROMPT)
        while True:
            typed = await self._input.get()
            await self.say(typed.replace(b"\n", b"\r\n").replace(INTERRUPT, b"^C"))
            *lines, line = (line + typed).replace(INTERRUPT, b"\n").split(b"\n")
            for each in lines:
                if (words := each.decode().split())[:1] == ["exit"]:
                    return int(words[1]) if words[1:] else 0
                await self._execute(each.decode())
                await self.say(PROMPT)

    async def _execute(self, line: str) -> int:
        verb, *rest = line.split() or [""]
        if verb == "sleep":
            return await self._sleep(float(rest[0]))
        if not verb:
            return 0
        text = self._output(verb, rest)
        shown = f"{verb}: not found" if text is None else text
        await self.say(shown.replace("\n", "\r\n").encode() + b"\r\n")
        return 127 if text is None else 0

    def _output(self, verb: str, words: list[str]) -> str | None:
        """Return what a command prints; None for an unknown one."""
        outputs = {
            "echo": lambda: self._expand(" ".join(words)),
            "cat": lambda: self._files.get(
                f"{STEP_DIRECTORY}/{words[0]}", self._files.get(words[0], "")
            ),
            "pwd": lambda: STEP_DIRECTORY,
            "stty": lambda: f"{self.size[1]} {self.size[0]}",
            "seq": lambda: "\n".join(str(number) for number in range(1, int(words[-1]) + 1)),
        }
        return outputs[verb]() if verb in outputs else None

    def _expand(self, text: str) -> str:
        bare = text.replace('"', "")
        return re.sub(r"\$(\w+)", lambda found: self._variables.get(found[1], ""), bare)

    async def _sleep(self, seconds: float) -> int:
        try:
            async with asyncio.timeout(seconds):
                while INTERRUPT not in (typed := await self._input.get()):
                    await self.say(typed)
                await self.say(b"^C\r\n")
                return 130
        except TimeoutError:
            return 0


def require_known_program(request: ShellRequest) -> None:
    if request.command and request.command[0].startswith("/no/such"):
        raise ShellUnavailable(f"{request.command[0]}: no such file")
