"""Mocks: simulated APIs of suites. Depends on suites, accounts and operations."""

from __future__ import annotations

from apps.mocks.access import require_reader as require_space_reader
from apps.mocks.access import require_writer as require_space_writer
from apps.mocks.access import run_readers
from apps.mocks.domain.calls import CallOutcome, JournalEntry
from apps.mocks.domain.documents import call_document, counter_document, record_document
from apps.mocks.domain.inspection import CallFilter, ExplainedCall
from apps.mocks.domain.ports import StateRecord
from apps.mocks.domain.spaces import SpaceName
from apps.mocks.services.inspection import (
    SpaceState,
    StatePatch,
    clear_journal,
    explain_call,
    patch_state,
    read_journal,
    read_state,
    remove_state,
)

__all__ = [
    "CallFilter",
    "CallOutcome",
    "ExplainedCall",
    "JournalEntry",
    "SpaceName",
    "SpaceState",
    "StatePatch",
    "StateRecord",
    "call_document",
    "clear_journal",
    "counter_document",
    "explain_call",
    "patch_state",
    "read_journal",
    "read_state",
    "record_document",
    "remove_state",
    "require_space_reader",
    "require_space_writer",
    "run_readers",
]
