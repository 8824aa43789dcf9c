"""The terminal of a person, or a pipe: bytes in and out, its size, and its modes put back."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from apps.shells.domain.local_terminal import PlainOutput, TerminalModes
from apps.shells.domain.records import LARGEST_SIZE, MOST_BYTES, TerminalSize
from apps.streams.api import listen

_WITHOUT_TERMINAL: Final = TerminalSize(columns=80, rows=24)
_END_OF_INPUT: Final = b"\x04"


class HungUp(Exception):
    """The terminal is gone, or the command is told to end."""


class LocalTerminal:
    """Standard input and output. Use it in `session()`, which restores the terminal."""

    def __init__(self) -> None:
        self.is_typed = sys.stdin.isatty()
        self.is_shown = sys.stdout.isatty()
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._modes = TerminalModes()
        self._plain = PlainOutput()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._resized = False
        self._at_end = False
        self._last_byte = b"\n"

    @contextmanager
    def session(self, nudge_name: str) -> Iterator[None]:
        """Pass keys on as they are, Ctrl-C as well, until the end; a nudge ends a `wait`."""
        with ExitStack() as stack:
            stack.callback(os.close, self._woken)
            stack.callback(os.close, self._wake)
            stack.callback(listen(nudge_name, self._wake_up))
            for number in (signal.SIGTERM, signal.SIGHUP):
                stack.enter_context(_handle_signal(number, _hang_up))
            if self.is_typed:
                stack.enter_context(_handle_signal(signal.SIGWINCH, self._note_resize))
                before = termios.tcgetattr(self._input)
                stack.callback(termios.tcsetattr, self._input, termios.TCSADRAIN, before)
                tty.setraw(self._input, termios.TCSADRAIN)  # what was typed ahead stays
            stack.callback(self._reset)
            yield

    def _reset(self) -> None:
        self._write(self._modes.reset() if self.is_shown else self._plain.finish())

    def _wake_up(self) -> None:
        try:
            os.write(self._wake, b"!")
        except (BlockingIOError, OSError):  # it is awake, or closed
            return

    def _note_resize(self, *_signal: Any) -> None:
        self._resized = True
        self._wake_up()

    def size(self) -> TerminalSize:
        """Return the size of the terminal; 80 × 24 without one."""
        for descriptor in (self._output, self._input):
            if os.isatty(descriptor):
                found = os.get_terminal_size(descriptor)
                columns, rows = (max(1, min(each, LARGEST_SIZE)) for each in found)
                return TerminalSize(columns=columns, rows=rows)
        return _WITHOUT_TERMINAL

    def take_new_size(self) -> TerminalSize | None:
        """Return the size if it has changed since the last call."""
        resized, self._resized = self._resized, False
        return self.size() if resized else None

    def wait(self, within_s: float, *, for_input: bool) -> bytes:
        """Wait for keys, a nudge or the time; return what was typed.

        The end of a pipe is Ctrl-D, twice in the middle of a line.
        """
        watched = [self._woken]
        if for_input and not self._at_end:
            watched.append(self._input)
        ready, _, _ = select.select(watched, [], [], within_s)
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._input not in ready:
            return b""
        if typed := os.read(self._input, MOST_BYTES):
            self._last_byte = typed[-1:]
            return typed
        self._at_end = True
        return _END_OF_INPUT if self._last_byte == b"\n" else _END_OF_INPUT * 2

    def show(self, output: bytes) -> None:
        """Write output of the program; into a pipe, without the modes of a terminal."""
        self._modes.feed(output)
        self._write(output if self.is_shown else self._plain.feed(output))

    def _write(self, output: bytes) -> None:
        rest = memoryview(output)
        while rest:
            rest = rest[os.write(self._output, rest) :]


def _hang_up(*_signal: Any) -> None:
    raise HungUp


@contextmanager
def _handle_signal(number: signal.Signals, handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
