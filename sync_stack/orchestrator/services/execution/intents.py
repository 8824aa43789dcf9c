"""Intents after the writes: applied, rolled forward, or restored from the journal.

(reference: sync-stack 4.7, 4.8)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sync_stack.core.journal import JournalRecord, plan_restore
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import SinkConflict, SinkError, TargetMarker, batches
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome, TaskMemory
from sync_stack.orchestrator.selectors import ledgers, tasks
from sync_stack.orchestrator.services import counters, journals, ledger_records
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.targets import (
    Target,
    lock_destinations,
    unfinished_targets,
)

log: Final = logging.getLogger(__name__)


def restore(target: Target, ledger: Ledger, marker: TargetMarker) -> tuple[Ledger, int]:
    """Write back what an intent replaced; return the ledger without it and the number of keys.

    Raises TaskError(restore_failed) and keeps the intent.
    """
    intent = ledger.intent
    if intent is None:
        return ledger, 0
    try:
        keys = _restore_journal(target, intent.journal, marker) if intent.journal else 0
    except SinkError as error:
        counters.count_restore("error")
        raise TaskError("restore_failed", f"{error.code}: {error.detail}") from error
    saved = ledger_records.save(replace(ledger, intent=None))
    if saved is None:
        raise TaskError("restore_failed", "another task has changed the ledger")
    if intent.journal:
        journals.delete(intent.journal)
    counters.count_restore("ok")
    return saved, keys


def _restore_journal(target: Target, journal: str, marker: TargetMarker) -> int:
    entries, sink = journals.load(journal), target.sink
    records = sorted(entry.record for entry in entries)
    for left in reversed(range(sink.capabilities.replans + 1)):
        found = plan_restore(entries, sink.read(target.destination, target.owner, records))
        try:
            for deletes in batches(found.deletes, sink.capabilities):
                sink.delete(target.destination, deletes, target.owner, marker.generation)
            for puts in batches(found.puts, sink.capabilities):
                sink.write(target.destination, puts, marker)
        except SinkConflict:
            if not left:
                raise
        else:
            return found.keys
    return 0


def marker_of(attempt: Attempt, ref_state: RefState, target: Target) -> TargetMarker:
    return _marker(attempt, target, ref_state.event.ref, ref_state.head)


def _marker(attempt: Attempt, target: Target, ref: str, commit: str) -> TargetMarker:
    place = target.place
    return TargetMarker(
        rule=place.rule,
        repo=place.repo,
        env=place.env,
        generation=target.generation,
        tenant=place.tenant,
        datasource=place.datasource,
        ref=ref,
        commit=commit,
        tags=dict(attempt.bundle.global_tags),
        updated_at=attempt.now(),
    )


def finish_intent(
    attempt: Attempt, ref_state: RefState, target: Target
) -> tuple[JournalRecord, ...]:
    """Finish the intent of an earlier attempt (4.8, step 4). Raises TaskError, SinkError.

    A committed intent is applied. Of one of this task for the same commit, return the journal, to
    roll forward. Any other is restored.
    """
    ledger = target.ledger
    if ledger is None or ledger.intent is None:
        return ()
    state = ledger.intent.state
    if is_committed(ledger):
        target.ledger = commit_intent(ledger)
        return ()
    same = (attempt.task.id, ref_state.head, ref_state.rule_digest)
    if (state.task_id, state.commit, state.rule_digest) == same:
        target.sink.fence(target.destination, target.owner, target.generation)
        return journals.load(ledger.intent.journal) if ledger.intent.journal else ()
    restore_intent(attempt, target, ledger, marker_of(attempt, ref_state, target))
    return ()


def restore_intent(attempt: Attempt, target: Target, ledger: Ledger, marker: TargetMarker) -> None:
    """Undo the writes of an earlier attempt. Raises TaskError(restore_failed), SinkError."""
    target.sink.fence(target.destination, target.owner, target.generation)
    attempt.heartbeat.restoring = True
    try:
        target.ledger, _ = restore(target, ledger, marker)
    finally:
        attempt.heartbeat.restoring = False


def is_committed(ledger: Ledger) -> bool:
    """Return whether the task of the intent has stored it among its committed targets."""
    task = tasks.get(ledger.intent.state.task_id) if ledger.intent else None
    return task is not None and has_committed(TaskMemory.of(task.memory).done, ledger)


def has_committed(done: Mapping[str, RuleSyncOutcome], ledger: Ledger) -> bool:
    generation = ledger.intent.state.generation if ledger.intent else 0
    return any(
        target.committed and target.unit_id == ledger.unit_id and target.generation == generation
        for outcome in done.values()
        for target in outcome.targets
    )


def commit_intent(ledger: Ledger) -> Ledger:
    """Make the intent `applied` in one write (4.8, step 9), unless that has been done."""
    current: Ledger | None = ledger
    while current is not None and current.intent is not None:
        intent = current.intent
        wanted = replace(current, applied=intent.state, intent=None, retained=intent.retained)
        if saved := ledger_records.save(wanted):
            if intent.journal:
                journals.delete(intent.journal)
            return saved
        current = ledgers.get(ledger.unit_id)
        if current and current.intent and current.intent.state != intent.state:
            break
    return current or ledger


def recover_targets(attempt: Attempt, sync: RuleSync) -> None:
    """Restore unfinished targets of a rule sync that failed. Raises TaskError, SinkError."""
    if targets := unfinished_targets(attempt, sync):
        with lock_destinations(attempt, targets) as generations:
            restore_targets(attempt, targets, generations)


def restore_targets(
    attempt: Attempt, targets: Sequence[Target], generations: Mapping[str, int]
) -> None:
    """Restore, or commit, each locked target that still has its intent."""
    for target in targets:
        ledger = ledgers.get(target.ledger.unit_id) if target.ledger else None
        if ledger is None or ledger.intent is None:
            continue
        target.ledger, target.generation = ledger, generations[target.destination.id]
        if is_committed(ledger):
            commit_intent(ledger)
        else:
            before = ledger.applied or ledger.intent.state
            marker = _marker(attempt, target, before.ref, before.commit)
            restore_intent(attempt, target, ledger, marker)
