"""Mocks: simulated APIs of suites in spaces, with their state and journal.

`plane()` is in `data_plane`, for the server alone.
"""

from __future__ import annotations

from apps.mocks.access import require_reader as require_space_reader
from apps.mocks.access import require_writer as require_space_writer
from apps.mocks.services.inspection import (
    clear_journal,
    explain_call,
    journal_delay_s,
    journal_gap,
    read_journal,
    read_state,
    remove_state,
)
from apps.mocks.services.spaces import forget_spaces, reset_space, wait_until_ready
from mocks.engine.documents import requirement, requirement_words
from mocks.inspection.call_filters import CallFilter, describe_call
from mocks.inspection.explained_calls import ExplainedCall
from mocks.journal.entries import MAX_ENTRIES as JOURNAL_ENTRIES
from mocks.model.calls import CallOutcome, JournalEntry
from mocks.model.ports import SpaceContent, StateRecord
from mocks.model.spaces import SpaceName, mock_url
from surfaces.model import Condition
