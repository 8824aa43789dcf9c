"""Intents: stored before the first write, made `applied` after the last one.

(reference: sync-stack 4.7, 4.8)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sync_stack.core.journal import JournalRecord, merge_journals
from sync_stack.core.ledger import Intent, Ledger, State
from sync_stack.core.plan import applied_keys, retained_keys
from sync_stack.core.sink import TargetMarker
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator import derived_keys
from sync_stack.orchestrator.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.execution.planning import Planned
from sync_stack.orchestrator.execution.ref_state import RefState
from sync_stack.orchestrator.execution.restore import restore
from sync_stack.orchestrator.execution.units import Unit
from sync_stack.orchestrator.rows import journals, ledgers, tasks

log: Final = logging.getLogger(__name__)


def mark_of(attempt: Attempt, reading: RefState, unit: Unit) -> TargetMarker:
    place = unit.place
    return TargetMarker(
        rule=place.rule,
        repo=place.repo,
        env=place.env,
        generation=unit.generation,
        tenant=place.tenant,
        datasource=place.datasource,
        ref=reading.event.ref,
        commit=reading.head,
        tags=dict(attempt.bundle.global_tags),
        updated_at=attempt.now(),
    )


def settle(attempt: Attempt, reading: RefState, unit: Unit) -> tuple[JournalRecord, ...]:
    """Finish what an earlier attempt left (4.8 step 4). Raises TaskError, SinkError.

    Committed: applied. Ours, for the same commit: its journal, to roll forward. Else: restored.
    """
    ledger = unit.ledger
    if ledger is None or ledger.intent is None:
        return ()
    state = ledger.intent.state
    if is_committed(ledger):
        unit.ledger = commit_intent(ledger)
        return ()
    same = (attempt.task.id, reading.head, reading.rule_digest)
    if (state.task_id, state.commit, state.rule_digest) == same:
        unit.sink.fence(unit.destination, unit.owner, unit.generation)
        return journals.load(ledger.intent.journal) if ledger.intent.journal else ()
    give_back(attempt, unit, ledger, mark_of(attempt, reading, unit))
    return ()


def give_back(attempt: Attempt, unit: Unit, ledger: Ledger, mark: TargetMarker) -> None:
    """What an earlier attempt was at, undone. Raises TaskError(restore_failed), SinkError."""
    unit.sink.fence(unit.destination, unit.owner, unit.generation)
    attempt.beat.restoring = True
    try:
        unit.ledger, _ = restore(unit, ledger, mark)
    finally:
        attempt.beat.restoring = False


def is_committed(ledger: Ledger) -> bool:
    """Whether the task of the intent has stored it among its committed targets."""
    task = tasks.get(ledger.intent.state.task_id) if ledger.intent else None
    return task is not None and has_committed(task.memory, ledger)


def has_committed(memory: Mapping[str, Any], ledger: Ledger) -> bool:
    generation = ledger.intent.state.generation if ledger.intent else 0
    return any(
        target["committed"]
        and target["unit_id"] == ledger.unit_id
        and target["generation"] == generation
        for outcome in memory.get("done", {}).values()
        for target in outcome["targets"]
    )


def store_intent(attempt: Attempt, part: RuleSync, reading: RefState, planned: Planned) -> None:
    """Journal first, then the ledger that names it. Raises TaskError when it has moved."""
    unit = planned.unit
    journal = merge_journals(planned.older, planned.plan.journal)
    before = unit.ledger.intent.journal if unit.ledger and unit.ledger.intent else ""
    name = journals.store(journal, task_id=attempt.task.id) if journal else ""
    ledger = replace(
        unit.ledger or _fresh(part, unit),
        intent=_intent(attempt, reading, planned, name),
        digest_key_id=derived_keys.digest_key_id(),
        stale_since="",
        destination=unit.destination.name,
    )
    if unit.ledger is None:
        saved = ledgers.create(ledger, unit.destination)
    else:
        saved = ledgers.save(ledger)
    if saved is None:
        raise TaskError("destination_busy", "the ledger has moved meanwhile")
    unit.ledger, planned.journal, planned.older = saved, name, journal
    if before and before != name:
        journals.delete(before)


def _intent(attempt: Attempt, reading: RefState, planned: Planned, journal: str) -> Intent:
    unit, now = planned.unit, attempt.now()
    digest_key = derived_keys.digest_key()
    state = State(
        commit=reading.head,
        ref=reading.event.ref,
        rule_digest=reading.rule_digest,
        generation=unit.generation,
        at=now,
        task_id=attempt.task.id,
        override_commit=reading.override_commit,
        files=unit.files.files,
        keys=applied_keys(planned.request, planned.plan, digest_key),
    )
    retained = retained_keys(
        planned.plan, unit.ledger, planned.request.live, digest_key=digest_key, now=now
    )
    return Intent(state=state, journal=journal, retained=retained)


def _fresh(part: RuleSync, unit: Unit) -> Ledger:
    place = unit.place
    return Ledger(
        unit_id="",
        rule_id=place.rule,
        tenant=place.tenant,
        platform=part.rule.platform,
        datasource=place.datasource,
        kind=unit.destination.kind,
        repo=place.repo,
        env=place.env,
        destination=unit.destination.name,
        destination_id=unit.destination.id,
        digest_key_id=derived_keys.digest_key_id(),
    )


def commit_intent(ledger: Ledger) -> Ledger:
    """One write: `applied = intent` (4.8 step 9). What somebody else has finished stays so."""
    current: Ledger | None = ledger
    while current is not None and current.intent is not None:
        intent = current.intent
        wanted = replace(current, applied=intent.state, intent=None, retained=intent.retained)
        if saved := ledgers.save(wanted):
            if intent.journal:
                journals.delete(intent.journal)
            return saved
        current = ledgers.get(ledger.unit_id)
        if current and current.intent and current.intent.state != intent.state:
            break
    return current or ledger
