"""Background loops that a test leaves behind: no later test is unready because of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kernel import background
from kernel.background import BackgroundThread

FAILED = pytest.StashKey[bool]()  # of an item: its set-up, call or tear-down failed


@contextmanager
def own_loops(item: pytest.Item) -> Iterator[None]:
    """Forget the loops that began in this block and go on; of a test that failed, end them, too.

    A thread that a process has once, begun by the first test that needs it, goes on.
    """
    known = set(background._watched)
    yield
    left = background._watched - known
    for watch in left:
        background.forget(watch)
    has_failed = item.stash.get(FAILED, False)
    if left and has_failed:
        for thread in threading.enumerate():
            loop = getattr(getattr(thread, "_target", None), "__self__", None)
            if isinstance(loop, BackgroundThread) and loop.watch in left:
                loop.end()
