"""Whether a rule still yields a unit: the orchestrator's own rules for where units live."""

from __future__ import annotations

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Sink
from sync_stack.orchestrator.api import TargetLocation, is_for, is_yielded


def rule_named(bundle: Bundle, name: str) -> Rule | None:
    return next((rule for rule in bundle.rules if rule.name == name), None)


def is_assigned(bundle: Bundle, rule: Rule, ledger: Ledger, sink: Sink) -> bool:
    """False for orphans: the rule takes the repository no longer, or writes elsewhere."""
    if ledger.applied is None or not is_for(rule, ledger.repo):
        return False
    unit = TargetLocation(
        repo=ledger.repo,
        env=ledger.env,
        ref=ledger.applied.ref,
        destination_id=ledger.destination_id,
    )
    return is_yielded(bundle, rule, unit, sink)
