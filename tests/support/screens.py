"""What a terminal shows: a small emulator, and a program that runs in one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.processes import ROOT

_SEQUENCE: Final = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")
_UNFINISHED: Final = re.compile(r"\x1b(\[[?0-9;]*)?$")


class Screen:
    """A terminal of fixed width: `history` has the lines that left it at the top.

    It knows the few sequences that the client writes; any other is a failure, as it would be a
    way to drive the terminal. It does not reflow when it is resized, as xterm.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.history: list[str] = []
        self._lines = [""]
        self.x = self.y = 0
        self.wraps = True
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without the blank ones at its end."""
        shown = [line.rstrip() for line in self._lines]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    @property
    def text(self) -> str:
        """All that was ever shown and is not erased."""
        return "\n".join([*self.history, *self.lines])

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._lines = [line[:columns] for line in self._lines]
        self.x = min(self.x, columns - 1)
        self._scroll()

    def feed(self, text: str) -> None:
        text = self._rest + text
        unfinished = _UNFINISHED.search(text)
        self._rest = unfinished[0] if unfinished else ""
        text, place = text.removesuffix(self._rest), 0
        while place < len(text):
            if text[place] == "\x1b":
                found = _SEQUENCE.match(text, place)
                assert found, f"a sequence that is not known: {text[place : place + 20]!r}"
                self._obey(*found.groups())
                place = found.end()
            else:
                self._put(text[place])
                place += 1

    def _obey(self, private: str, numbers: str, what: str) -> None:
        if private:
            assert numbers + what in ("7l", "7h"), f"a mode that is not known: {numbers}{what}"
            self.wraps = what == "h"
        elif what == "A":
            self.y = max(0, self.y - int(numbers or 1))
        elif what == "J":
            assert numbers in ("", "0")
            self._lines = self._lines[: self.y + 1]
            self._lines[self.y] = self._lines[self.y][: self.x]
        else:
            assert what == "m", f"a sequence that is not known: {numbers}{what}"

    def _put(self, character: str) -> None:
        if character == "\r":
            self.x = 0
        elif character == "\n":
            self._feed_line()
        else:
            assert character == "\t" or character.isprintable(), repr(character)
            width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            if self.x + width > self.columns:
                if self.wraps:
                    self.x = 0
                    self._feed_line()
                else:
                    self.x = self.columns - width
            line = self._lines[self.y].ljust(self.x)
            self._lines[self.y] = line[: self.x] + character + line[self.x + 1 :]
            self.x += width

    def _feed_line(self) -> None:
        self.y += 1
        if self.y == len(self._lines):
            self._lines.append("")
        self._scroll()

    def _scroll(self) -> None:
        while len(self._lines) > self.rows:
            self.history.append(self._lines.pop(0).rstrip())
            self.y = max(0, self.y - 1)


class ProgramOnScreen:
    """A program with a terminal of its own, and what that shows."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], *, columns: int, rows: int
    ) -> None:
        self.screen = Screen(columns, rows)
        self.side, other = pty.openpty()
        self._set_size(columns, rows)
        self.process = subprocess.Popen(
            argv, cwd=ROOT, env=dict(environment), stdin=other, stdout=other, stderr=other,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no thread holds a lock
        )  # fmt: skip
        os.close(other)
        self.sent = bytearray()  # all that it has written

    def type(self, keys: bytes) -> None:
        os.write(self.side, keys)

    def read(self, *, within_s: float = 0.2) -> bool:
        """Show what came; return whether the terminal is still open."""
        if not select.select([self.side], [], [], within_s)[0]:
            return True
        try:
            content = os.read(self.side, 65536)
        except OSError:  # the program has closed it
            return False
        self.sent += content
        self.screen.feed(content.decode())
        return bool(content)

    def await_text(self, pattern: str) -> str:
        """Read until a pattern is on the screen; return that."""
        deadline = time.monotonic() + 60
        while not re.search(pattern, "\n".join(self.screen.lines), re.MULTILINE):
            assert time.monotonic() < deadline, f"no {pattern!r} in\n{self.screen.text}"
            assert self.read(), f"it ended without {pattern!r}:\n{self.screen.text}"
        return "\n".join(self.screen.lines)

    def await_end(self) -> int:
        """Read to the end; return the exit code, negative for a signal."""
        deadline = time.monotonic() + 60
        while self.read():
            assert time.monotonic() < deadline, self.screen.text
        return self.process.wait(30)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(columns, rows)
        self._set_size(columns, rows)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.side)


@contextmanager
def on_screen(
    argv: Sequence[str],
    home: Path,
    *,
    columns: int = 80,
    rows: int = 24,
    **variables: str,
) -> Iterator[ProgramOnScreen]:
    """Yield a program on a terminal, with a home of its own; it is killed at the end."""
    known = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm-256color"}
    program = ProgramOnScreen(argv, known | variables, columns=columns, rows=rows)
    try:
        yield program
    finally:
        program.close()
