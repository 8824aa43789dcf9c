"""The states of a reap."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ReapState(StrEnum):
    """Live runs are canceled, a runner is awaited, one removes, it is over."""

    MARKING = "marking"
    READY = "ready"
    SWEEPING = "sweeping"
    DONE = "done"


OPEN_STATES: Final = [str(state) for state in ReapState if state is not ReapState.DONE]
