"""How often the garbage collector looks, in a process that executes tasks."""

from __future__ import annotations

import gc
from typing import Final

_OBJECTS: Final = 50_000


def collect_seldom() -> None:
    """A large file is tens of thousands of values for a moment, and none in a cycle.

    To look at all of them after each 700 objects costs a third of such a sync's CPU.
    """
    if gc.get_threshold()[0] < _OBJECTS:
        gc.freeze()
        gc.set_threshold(_OBJECTS, 10, 10)
