"""Mocks: simulated APIs of suites in spaces, with their state and journal.

`plane()` is in `serving`, for the server alone.
"""

from __future__ import annotations

from apps.mocks.addresses import mock_url
from apps.mocks.domain.calls import CallOutcome, JournalEntry
from apps.mocks.domain.ports import Counter, SpaceContent, SpaceSource, StateRecord, StateStore
from apps.mocks.domain.spaces import SpaceName
from apps.mocks.refusals import OperationNotFound, SpaceNotActive, SuiteNotFound, SurfaceNotFound
from apps.mocks.services.inspection import (
    ExplainedCall,
    SpaceState,
    clear_journal,
    explain_call,
    read_journal,
    read_state,
    remove_state,
)
from apps.mocks.services.readiness import ask_ready, wait_until_ready
from apps.mocks.services.resets import forget_spaces, reset_space
from apps.mocks.spaces import space_sources

__all__ = [
    "CallOutcome",
    "Counter",
    "ExplainedCall",
    "JournalEntry",
    "OperationNotFound",
    "SpaceContent",
    "SpaceName",
    "SpaceNotActive",
    "SpaceSource",
    "SpaceState",
    "StateRecord",
    "StateStore",
    "SuiteNotFound",
    "SurfaceNotFound",
    "ask_ready",
    "clear_journal",
    "explain_call",
    "forget_spaces",
    "mock_url",
    "read_journal",
    "read_state",
    "remove_state",
    "reset_space",
    "space_sources",
    "wait_until_ready",
]
