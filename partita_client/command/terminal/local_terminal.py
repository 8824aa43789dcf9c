"""The terminal of a person, or a pipe: bytes in and out, its size, and its modes put back.

For Unix alone: it imports `termios`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any, Final, Protocol

from partita_client.command.terminal.terminal_modes import PlainOutput, TerminalModes

READ_MAX: Final = 64 * 2**10  # of one message of the protocol
_LARGEST_SIZE: Final = 1000
_WITHOUT_TERMINAL: Final = os.terminal_size((80, 24))
_END_OF_INPUT: Final = b"\x04"
_WAKE: Final = b"!"


class HungUp(Exception):
    """The terminal is gone, or the command is told to end."""


class Waited(Protocol):
    """A connection that is waited for beside the keys."""

    has_more: bool

    def fileno(self) -> int: ...

    @property
    def wants_write(self) -> bool: ...


class LocalTerminal:
    """Standard input and output. Use it in `raw_mode()`, which restores the terminal."""

    def __init__(self) -> None:
        self._input, self._output = _descriptor(sys.stdin), _descriptor(sys.stdout)
        self.is_typed = os.isatty(self._input)
        self._is_shown = os.isatty(self._output)
        self._modes = TerminalModes()
        self._plain = PlainOutput()
        self._resized = False
        self._at_end = False
        self._last_byte = b"\n"

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        """Pass keys on as they are, Ctrl-C as well, until the end; signals raise HungUp."""
        with ExitStack() as stack:
            self._woken, self._wake = os.pipe()
            stack.callback(os.close, self._woken)
            stack.callback(os.close, self._wake)
            os.set_blocking(self._wake, False)
            for number in (signal.SIGTERM, signal.SIGHUP):
                stack.enter_context(_handle_signal(number, _hang_up))
            if self.is_typed:
                stack.enter_context(_handle_signal(signal.SIGWINCH, self._note_resize))
                before = termios.tcgetattr(self._input)
                stack.callback(self._restore, before)
                tty.setraw(self._input, termios.TCSADRAIN)  # what was typed ahead stays
            stack.callback(self._reset)
            yield

    def _restore(self, before: list[Any]) -> None:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._input, termios.TCSADRAIN, before)

    def _reset(self) -> None:
        with suppress(OSError):  # the terminal is gone, or who reads the pipe
            self._write(self._modes.reset() if self._is_shown else self._plain.finish())

    def _note_resize(self, *_signal: Any) -> None:
        self._resized = True
        try:
            os.write(self._wake, _WAKE)
        except BlockingIOError:  # it is awake
            return

    def size(self) -> os.terminal_size:
        """Return the size of the terminal; 80 × 24 without one."""
        for descriptor in (self._output, self._input):
            if os.isatty(descriptor):
                found = os.get_terminal_size(descriptor)
                return os.terminal_size([max(1, min(each, _LARGEST_SIZE)) for each in found])
        return _WITHOUT_TERMINAL

    def take_new_size(self) -> os.terminal_size | None:
        """Return the size if it has changed since the last call."""
        resized, self._resized = self._resized, False
        return self.size() if resized else None

    def wait(self, within_s: float, *, for_input: bool, connection: Waited | None = None) -> bytes:
        """Wait for keys, the connection, a new size or the time; return what was typed.

        The end of a pipe is Ctrl-D, twice in the middle of a line.
        """
        readers: list[int | Waited] = [self._woken]
        if for_input and not self._at_end:
            readers.append(self._input)
        if connection is not None:
            readers.append(connection)
        writers = [connection] if connection is not None and connection.wants_write else []
        has_more = connection is not None and connection.has_more
        ready, _, _ = select.select(readers, writers, [], 0.0 if has_more else within_s)
        if self._woken in ready:
            os.read(self._woken, 4096)
        return self._read_input() if self._input in ready else b""

    def _read_input(self) -> bytes:
        try:
            typed = os.read(self._input, READ_MAX)
        except OSError as error:  # EIO: the terminal is gone
            raise HungUp from error
        if typed:
            self._last_byte = typed[-1:]
            return typed
        self._at_end = True
        return _END_OF_INPUT if self._last_byte == b"\n" else _END_OF_INPUT * 2

    def show(self, output: bytes) -> None:
        """Write output of the program; into a pipe, without the modes of a terminal."""
        self._modes.feed(output)
        self._write(output if self._is_shown else self._plain.feed(output))

    def note(self, words: str) -> None:
        """Write a line for a person to stderr, also while the terminal is raw."""
        sys.stderr.write(f"{words}\r\n" if self.is_typed else f"{words}\n")
        sys.stderr.flush()

    def _write(self, output: bytes) -> None:
        rest = memoryview(output)
        while rest:
            rest = rest[os.write(self._output, rest) :]


def _descriptor(stream: IO[str] | None) -> int:
    """Return the descriptor of a standard stream; one without anything where it is closed."""
    return os.open(os.devnull, os.O_RDWR) if stream is None else stream.fileno()


def _hang_up(*_signal: Any) -> None:
    raise HungUp


@contextmanager
def _handle_signal(number: signal.Signals, handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
