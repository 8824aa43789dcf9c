"""A terminal on which lines scroll above rows that are drawn anew."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

TICK_S: Final = 1.0  # without news: the times of the rows go on
PAUSE_S: Final = 0.125  # between two frames: at most eight a second
_WAITING_MAX: Final = 2**20  # characters that wait for the terminal
_CLOSE_S: Final = 5.0  # for a terminal that was stopped by Ctrl-S
_NO_WRAP: Final = "\x1b[?7l"
_WRAP: Final = "\x1b[?7h"
_ERASE_BELOW: Final = "\x1b[J"
_USUAL_SIZE: Final = (80, 24)
DrawRows = Callable[[int, int], Sequence[str]]  # columns and rows of the terminal


class LiveScreen:
    """Writes lines, and below them the rows that `draw` returns; `close` removes the rows.

    One thread of its own writes, whole frames only: what interrupts the caller cannot interrupt a
    frame. The cursor stays visible and no mode of the terminal stays changed, so that a `kill -9`
    leaves some rows, but a usable terminal. `add_line` waits for a slow terminal.
    """

    def __init__(self, descriptor: int, encoding: str, draw: DrawRows) -> None:
        self._descriptor, self._encoding, self._draw = descriptor, encoding, draw
        self._lines: list[str] = []
        self._waiting = 0
        self._changed = threading.Condition()
        self._news, self._is_over = threading.Event(), threading.Event()
        self._drawn: Sequence[str] = ()
        self._is_elsewhere = False  # the cursor: something else has written since
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._write_frames, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add_line(self, text: str) -> None:
        """Write a line above the rows, soon; raise what stopped the writing."""
        with self._changed:
            self._lines.append(text)
            self._waiting += len(text)
            self._news.set()
            while self._waiting > _WAITING_MAX and self._thread.is_alive():
                self._changed.wait(TICK_S)
        self.require_no_failure()

    def require_no_failure(self) -> None:
        """Raise what stopped the writing, such as OSError when the terminal is gone."""
        if self._failure is not None:
            raise self._failure

    def redraw(self) -> None:
        """Draw the rows again, soon: what they show has changed."""
        self._news.set()

    def remove_rows(self) -> None:
        """Go on without rows: what they show is no longer known."""
        self._draw = lambda _columns, _rows: ()
        self._news.set()

    def begin_anew(self) -> None:
        """Draw the rows where the cursor is now: the program was stopped, and others wrote."""
        self._is_elsewhere = True
        self._news.set()

    def close(self) -> None:
        """Write what waits and remove the rows."""
        self._is_over.set()
        self._news.set()
        self._thread.join(_CLOSE_S)

    def _write_frames(self) -> None:
        try:
            while not self._is_over.is_set():
                self._news.wait(TICK_S)
                self._news.clear()
                self._write(self._next_frame(self._draw(*self._size())))
                self._is_over.wait(PAUSE_S if self._waiting < _WAITING_MAX // 2 else 0)
            self._write(self._next_frame(()))
        except Exception as error:  # noqa: BLE001 - raised where the next line is written
            self._failure = error

    def _next_frame(self, rows: Sequence[str]) -> str:
        """Return what replaces the rows by the new lines and the rows below them."""
        with self._changed:
            lines, self._lines, self._waiting = self._lines, [], 0
            self._changed.notify_all()
        before, self._drawn = () if self._is_elsewhere else self._drawn, rows
        self._is_elsewhere = False
        if not lines and before == rows:
            return ""
        return _erase(len(before)) + "".join(f"{line}\n" for line in lines) + _without_wrap(rows)

    def _write(self, text: str) -> None:
        content = memoryview(text.encode(self._encoding, "replace"))
        while content:
            content = content[os.write(self._descriptor, content) :]

    def _size(self) -> tuple[int, int]:
        """Return columns and rows; those of a usual terminal where it does not say them."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(self._descriptor)
            return size.columns or _USUAL_SIZE[0], size.lines or _USUAL_SIZE[1]
        return _USUAL_SIZE


def _erase(count: int) -> str:
    """Return what removes the rows; the cursor is at the end of the last one."""
    if not count:
        return ""
    up = f"\x1b[{count - 1}A" if count > 1 else ""
    return f"\r{up}{_ERASE_BELOW}"


def _without_wrap(rows: Sequence[str]) -> str:
    """Return the rows, which never take two lines, whatever the terminal thinks of their width."""
    return "\n".join(rows).join((_NO_WRAP, _WRAP)) if rows else ""


@contextmanager
def open_screen(descriptor: int, encoding: str, draw: DrawRows) -> Iterator[LiveScreen]:
    """Yield a screen whose rows are gone afterwards: at the end, by an error, Ctrl-C or a kill."""
    screen = LiveScreen(descriptor, encoding, draw)
    with _signals(screen):
        screen.start()
        try:
            yield screen
        finally:
            screen.close()
        screen.require_no_failure()


class _Terminated(BaseException):
    """SIGTERM has come: the rows are removed, then it ends the program."""


@contextmanager
def _signals(screen: LiveScreen) -> Iterator[None]:
    """Remove the rows before SIGTERM ends the program, and draw them anew after a stop."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread has signals
        return

    def end(_number: int, _frame: Any) -> None:
        raise _Terminated

    def go_on(_number: int, _frame: Any) -> None:
        screen.begin_anew()

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGCONT)}
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGCONT, go_on)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
