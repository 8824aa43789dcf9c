"""The rows and rules of the orchestrator that the watcher may use; it imports nothing else of it.

`drift` reads episodes and targets, `drift_records` writes them, `leader` elects the one that polls.
"""

from __future__ import annotations

from sync_stack.orchestrator.derived_keys import digest_key_of
from sync_stack.orchestrator.models import Drift
from sync_stack.orchestrator.selectors import drift
from sync_stack.orchestrator.selectors.drift import DriftSnapshot
from sync_stack.orchestrator.selectors.ledgers import destination_of
from sync_stack.orchestrator.services import drift_records, leader
from sync_stack.orchestrator.services.drift_records import HealRecord
from sync_stack.orchestrator.services.execution.rule_scope import (
    TargetLocation,
    is_for,
    is_produced,
)
from sync_stack.orchestrator.services.leader import LeaderRecord
