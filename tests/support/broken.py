"""Work that fails once in a way that nobody foresaw, and then does what it stands for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from kernel import background


class Unforeseen(Exception):
    """No code expects it."""


class BrokenOnce:
    """`call` stands in for a function or method; `raised` and `worked` count what it did."""

    def __init__(self, then: Callable[..., Any] = lambda *_arguments, **_options: None) -> None:
        self._then = then
        self.raised = self.worked = 0

    def call(self, *arguments: Any, **options: Any) -> Any:
        if not self.raised:
            self.raised += 1
            raise Unforeseen("as the test says")
        self.worked += 1
        return self._then(*arguments, **options)

    def function(self) -> Callable[..., Any]:
        """The same as a function, which a class hands its object to."""

        def call(*arguments: Any, **options: Any) -> Any:
            return self.call(*arguments, **options)

        return call


async def comes_back(
    name: str, broken: BrokenOnce, poke: Callable[[], object] = lambda: None
) -> None:
    """Until the loop of that name has failed once, was counted, and works again.

    `poke` gives it work, again and again. AssertionError after 20 s.
    """
    deadline = time.monotonic() + 20
    while not (broken.raised and broken.worked and name not in background.failing()):
        assert time.monotonic() < deadline, (name, broken.raised, broken.worked)
        poke()
        await asyncio.sleep(0.02)
    assert background.failures()[name] >= 1
