"""Steps on the terminal, each with its time; a step that does not happen in time ends the demo."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.markup import escape

T = TypeVar("T")


class StepMissed(Exception):
    """What did not happen; the message says it."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM."""


class Story:
    """`limit_s`: how long a step may take. `check` raises StepMissed when going on is no use."""

    def __init__(self, console: Console, *, limit_s: float) -> None:
        self.console, self.limit_s = console, limit_s
        self.check: Callable[[], None] = lambda: None
        self._stop = threading.Event()

    def listen(self) -> None:
        """From now on signals end the next wait, and nothing in between."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._stop.set())

    @contextmanager
    def step(self, sentence: str) -> Iterator[Callable[[str], None]]:
        """Yields a function that adds a detail to the line."""
        details: list[str] = []
        begun = time.monotonic()
        mark = "[red]✗[/]"
        try:
            with self.console.status(escape(sentence)):
                yield details.append
            mark = "[green]✓[/]"
        finally:
            self._line(mark, sentence, begun, details)

    def until(self, condition: Callable[[], T | None]) -> T:
        """The first truthy answer. Raises StepMissed after the limit, Interrupted on a signal."""
        deadline = time.monotonic() + self.limit_s
        while True:
            if answer := condition():
                return answer
            if self._stop.wait(0.05):
                raise Interrupted
            self.check()
            if time.monotonic() > deadline:
                raise StepMissed(f"not within {self.limit_s:g} s")

    def say(self, sentence: str) -> None:
        self.console.print(sentence, style="dim", markup=False, soft_wrap=True)

    def show(self, text: str) -> None:
        self.console.print(text.expandtabs(4), style="cyan", markup=False, soft_wrap=True)

    def fail(self, why: str, logs: Mapping[str, Sequence[str]]) -> None:
        self.console.print(why, style="red", markup=False, soft_wrap=True)
        for name, lines in logs.items():
            self.console.print(f"last lines of {name}:", style="bold", markup=False)
            for line in lines:
                self.console.print(f"  {line}", markup=False, soft_wrap=True)

    def _line(self, mark: str, sentence: str, begun: float, details: list[str]) -> None:
        took = f"[dim]{time.monotonic() - begun:6.2f} s[/]"
        self.console.print(f"{mark} {took}  {escape(sentence)}", soft_wrap=True)
        for detail in details:
            self.console.print(f"              {detail}", style="dim", markup=False, soft_wrap=True)
