"""Whether a rule still yields a unit: the orchestrator's own rules for where units live."""

from __future__ import annotations

from sync_stack.core.bundle.model import Bundle, Rule
from sync_stack.core.events import BadPayload
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Sink, SinkError
from sync_stack.orchestrator.execution.parts import is_for
from sync_stack.orchestrator.execution.units import place_of
from sync_stack.orchestrator.services.trigger import event_for


def rule_named(bundle: Bundle, name: str) -> Rule | None:
    return next((rule for rule in bundle.rules if rule.name == name), None)


def is_watched(bundle: Bundle, rule: Rule, ledger: Ledger, sink: Sink) -> bool:
    """False for orphans: the rule no longer takes the repository, or writes elsewhere."""
    if ledger.applied is None or not is_for(rule, ledger.repo):
        return False
    try:
        event = event_for(bundle, rule, ledger.repo, ledger.applied.ref)
        place = place_of(rule, event, ledger.env)
        return sink.destination(place).id == ledger.destination_id
    except (BadPayload, SinkError):
        return False
