"""The terminal of a person, or a pipe: bytes in and out, its size, and its modes put back.

For Unix alone: it imports `termios`.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, Protocol

from partita_client.command.terminal.terminal_modes import PlainOutput, TerminalModes

READ_MAX: Final = 64 * 2**10  # of one message of the protocol
_LAST_OUTPUT_S: Final = 2.0  # for what is left to write when the person leaves
_SIGNALS: Final = 128  # + the number of a signal is the exit code of what it ended
_LARGEST_SIZE: Final = 1000
_WITHOUT_TERMINAL: Final = os.terminal_size((80, 24))
_END_OF_INPUT: Final = b"\x04"
_WAKE: Final = b"!"


class HungUp(Exception):
    """The terminal is gone (SIGHUP), or a signal told the command to end."""

    def __init__(self, number: int = signal.SIGHUP) -> None:
        self.signal_name = signal.Signals(number).name
        self.exit_code = _SIGNALS + number
        super().__init__(self.signal_name)


class Selectable(Protocol):
    """A connection that is waited for beside the keys, or a call that opens one."""

    def fileno(self) -> int: ...

    @property
    def has_more(self) -> bool: ...

    @property
    def wants_write(self) -> bool: ...


class LocalTerminal:
    """Standard input and output. Use it in `raw_mode()`, which restores the terminal.

    Output that a slow reader does not take yet is kept, so that nobody waits for it but `drain`.
    """

    def __init__(self) -> None:
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self.is_typed = os.isatty(self._input)
        self._is_shown = os.isatty(self._output)
        self._pending = bytearray()
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
            if self._is_shown:
                before_opening = self._output
                self._output = stack.enter_context(_open_without_blocking(before_opening))
                stack.callback(setattr, self, "_output", before_opening)
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
        self._pending += self._modes.reset() if self._is_shown else self._plain.finish()
        with suppress(OSError, HungUp):  # the terminal is gone, or who reads the pipe
            self.drain(_LAST_OUTPUT_S)

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

    def wait(
        self, within_s: float, *, for_input: bool, connection: Selectable | None = None
    ) -> bytes:
        """Wait for keys, the connection, a new size or the time; return what was typed.

        The end of a pipe is Ctrl-D, twice in the middle of a line.
        """
        readers: list[int | Selectable] = [self._woken]
        if for_input and not self._at_end:
            readers.append(self._input)
        if connection is not None:
            readers.append(connection)
        writers: list[int | Selectable] = [self._output] if self._pending else []
        if connection is not None and connection.wants_write:
            writers.append(connection)
        has_more = connection is not None and connection.has_more
        ready, _, _ = select.select(readers, writers, [], 0.0 if has_more else within_s)
        if self._woken in ready:
            os.read(self._woken, 4096)
        self._write_ready()
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
        """Write output of the program; into a pipe, without the modes of a terminal.

        What has no room there is written by a later `wait` or `drain`.
        """
        self._modes.feed(output)
        self._pending += output if self._is_shown else self._plain.feed(output)
        self._write_ready()

    @property
    def unwritten(self) -> int:
        """How many bytes wait for a slow reader."""
        return len(self._pending)

    def drain(self, within_s: float | None = None) -> None:
        """Wait until all output is written, or the time is over."""
        until = None if within_s is None else time.monotonic() + within_s
        while self._pending:
            left_s = None if until is None else until - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            select.select([], [self._output], [], left_s)
            self._write_ready()

    def note(self, words: str) -> None:
        """Write a line for a person to stderr, also while the terminal is raw."""
        sys.stderr.write(f"{words}\r\n" if self.is_typed else f"{words}\n")
        sys.stderr.flush()

    def ring(self) -> None:
        """Ring the bell of the terminal."""
        sys.stderr.write("\a")
        sys.stderr.flush()

    def _write_ready(self) -> None:
        """Write what has room; a pipe that is ready takes PIPE_BUF bytes without blocking."""
        while self._pending and select.select([], [self._output], [], 0.0)[1]:
            try:
                written = os.write(self._output, self._pending[: select.PIPE_BUF])
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EIO:
                    raise HungUp from error
                raise
            del self._pending[:written]


@contextmanager
def _open_without_blocking(terminal: int) -> Iterator[int]:
    """Yield another descriptor of a terminal: O_NONBLOCK on its own would hold for the shell too.

    Where it cannot be opened again, yield the same.
    """
    try:
        opened = os.open(os.ttyname(terminal), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:  # of another person or container
        yield terminal
        return
    try:
        yield opened
    finally:
        os.close(opened)


def _hang_up(number: int, _frame: Any) -> None:
    raise HungUp(number)


@contextmanager
def _handle_signal(number: signal.Signals, handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
