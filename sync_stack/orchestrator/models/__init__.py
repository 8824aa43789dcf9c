"""Rows of the sync. All keys are texts made here, so that every store takes them."""

from __future__ import annotations

from sync_stack.orchestrator.models.drift import Drift, Leader, WatchState
from sync_stack.orchestrator.models.task import Counter, Task
from sync_stack.orchestrator.models.unit import JournalChunk, Lease, LedgerUnit, RefRecord

__all__ = [
    "Counter",
    "Drift",
    "JournalChunk",
    "Leader",
    "Lease",
    "LedgerUnit",
    "RefRecord",
    "Task",
    "WatchState",
]
