"""A loop that a failed test leaves behind makes nothing unready after it."""

from __future__ import annotations

import pytest

from kernel import background
from kernel.background import BackgroundThread
from tests.support.broken import Unforeseen
from tests.support.left_loops import FAILED, own_loops
from tests.support.processes import until


class Item:
    """What the block asks of a test."""

    def __init__(self, *, failed: bool) -> None:
        self.stash = pytest.Stash()
        self.stash[FAILED] = failed


def fail() -> None:
    raise Unforeseen("as the test says")


@pytest.mark.parametrize("failed", [True, False])
def test_a_loop_that_is_left_is_forgotten_and_of_a_failed_test_ended(failed: bool) -> None:
    loop = BackgroundThread("left", fail)
    with own_loops(Item(failed=failed)):  # type: ignore[arg-type]
        loop.start()
        until(lambda: "left" in background.failing(), within_s=30)

    assert "left" not in background.running()
    assert loop._ended.is_set() is failed
    loop.end()
    loop.join(30)
    assert not loop.is_alive()
