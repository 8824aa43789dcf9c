"""Work that fails once in a way that nobody foresaw, and then does what it stands for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

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


Break = Callable[..., BrokenOnce]


@pytest.fixture
def quick_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops pause briefly after a failure, and those of other tests are not known."""
    monkeypatch.setattr(background, "FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(background, "STEADY_S", 0.2)
    monkeypatch.setattr(background, "_watched", set())
    monkeypatch.setattr(background, "_failures", Counter())


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Replaces a function, or a method of a class, by one that fails at its first call.

    After that it does what `then` does; without one, what it did before.
    """

    def patch(where: object, name: str, then: Callable[..., Any] | None = None) -> BrokenOnce:
        once = BrokenOnce(getattr(where, name) if then is None else then)
        monkeypatch.setattr(where, name, once.function())
        return once

    return patch


def nothing(*_arguments: Any, **_options: Any) -> None:
    """For what a loop does when nothing is behind it."""


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
