"""Finish what earlier attempts left: an intent is applied, rolled forward, or restored.

(reference: sync-stack 4.8, steps 4 and 9)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sync_stack.core.journal import JournalRecord, plan_restore
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import SinkConflict, SinkError, TargetMarker
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import counters, ledger_records
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.targets import Target, marker_of
from sync_stack.orchestrator.services.ledger_records import commit_intent, is_committed


def restore_targets(
    attempt: Attempt, targets: Sequence[Target], generations: Mapping[str, int]
) -> None:
    """Restore, or commit, each locked target that still has its intent.

    Raises TaskError(restore_failed), SinkError.
    """
    for target in targets:
        if target.ledger is not None and (ledger := ledgers.get(target.ledger.unit_id)):
            target.ledger, target.generation = ledger, generations[target.destination.id]
            finish_intent(attempt, target)


def finish_intent(
    attempt: Attempt, target: Target, ref_state: RefState | None = None
) -> tuple[JournalRecord, ...]:
    """Finish the intent of an earlier attempt (4.8, step 4). Raises TaskError, SinkError.

    A committed intent is applied. Of one of this task for the same commit as `ref_state`, return
    the journal, to roll forward. Any other is restored.
    """
    ledger = target.ledger
    if ledger is None or ledger.intent is None:
        return ()
    state = ledger.intent.state
    if is_committed(ledger):
        target.ledger = commit_intent(ledger)
        return ()
    before = ledger.applied or state
    ref, commit = before.ref, before.commit
    if ref_state is not None:
        same = (attempt.task.id, ref_state.head, ref_state.rule_digest)
        if (state.task_id, state.commit, state.rule_digest) == same:
            target.sink.fence(target.destination, target.owner, target.generation)
            return ledger_records.read_journal(ledger)
        ref, commit = ref_state.event.ref, ref_state.head
    target.sink.fence(target.destination, target.owner, target.generation)
    restore_target(attempt, target, ref, commit)
    return ()


def restore_target(attempt: Attempt, target: Target, ref: str, commit: str) -> int:
    """Write back what the intent replaced, and clear it; return the number of keys.

    `ref` and `commit` are named in the records. Raises TaskError(restore_failed) and keeps the
    intent.
    """
    assert target.ledger is not None
    marker = marker_of(attempt, target, ref, commit)
    attempt.heartbeat.restoring = True
    try:
        keys = _write_back(target, target.ledger, marker)
    except SinkError as error:
        counters.count_restore("error")
        raise TaskError("restore_failed", f"{error.code}: {error.detail}") from error
    finally:
        attempt.heartbeat.restoring = False
    target.ledger = ledger_records.clear_intent(target.ledger)
    counters.count_restore("ok")
    return keys


def _write_back(target: Target, ledger: Ledger, marker: TargetMarker) -> int:
    """Write what the journal holds; after a conflict read again, as often as the sink allows."""
    journal, sink = ledger_records.read_journal(ledger), target.sink
    records = sorted(entry.record for entry in journal)
    for left in reversed(range(sink.capabilities.replans + 1)) if journal else ():
        found = plan_restore(journal, sink.read(target.destination, target.owner, records))
        try:
            sink.delete(target.destination, found.deletes, target.owner, marker.generation)
            sink.write(target.destination, found.puts, marker)
        except SinkConflict:
            if not left:
                raise
        else:
            return found.keys
    return 0
