"""Write what is planned at all targets, or restore all of them; then commit the intents.

An intent that an earlier attempt left is applied, rolled forward, or restored from its journal.
(reference: sync-stack 4.7, 4.8, steps 4 and 6 to 9)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sync_stack.core.journal import JournalRecord, merge_journals, plan_restore
from sync_stack.core.ledger import Intent, Ledger, TargetState
from sync_stack.core.plan import applied_keys, plan_apply, retained_keys
from sync_stack.core.sink import SinkConflict, SinkError, TargetMarker
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator import derived_keys
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import counters, ledger_records
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.target_content import read_destination
from sync_stack.orchestrator.services.execution.targets import Target, TargetFailed, TargetPlan
from sync_stack.orchestrator.services.ledger_records import commit_intent, is_committed
from sync_stack.repositories import GitError

log: Final = logging.getLogger(__name__)


def write_targets(attempt: Attempt, ref_state: RefState, planned: Sequence[TargetPlan]) -> None:
    """Store intents, write, delete, verify; restore after an error. Raises TargetFailed."""
    attempt.stage("apply", 0.5)
    current = planned[0]
    try:
        for current in planned:
            store_intent(attempt, ref_state, current)
        for current in planned:
            _put(attempt, ref_state, current)
        for current in planned:
            target, deletes = current.target, current.plan.deletes
            target.sink.delete(target.destination, deletes, target.owner, target.generation)
        attempt.stage("verify", 0.75)
        for current in planned:
            _verify(current)
    except KNOWN_ERRORS as error:
        failure = TargetFailed(current.target, error, planned=planned)
        if not (isinstance(error, SinkError) and error.code == "stale_generation"):
            _restore_all(attempt, ref_state, failure)
        raise failure from error


def store_intent(attempt: Attempt, ref_state: RefState, planned: TargetPlan) -> None:
    """Store the journal, then the ledger that names it. Raises TaskError if that has changed."""
    target = planned.target
    ledger = replace(
        target.ledger or _new_ledger(ref_state, target),
        digest_key_id=derived_keys.digest_key_id(),
        stale_since="",
        destination=target.destination.name,
    )
    intent = _intent(attempt, ref_state, planned)
    journal = merge_journals(planned.journal, planned.plan.journal)
    target.ledger = ledger_records.store_intent(ledger, intent, journal, target.destination)
    planned.journal = journal


def _intent(attempt: Attempt, ref_state: RefState, planned: TargetPlan) -> Intent:
    """Return the intent, whose journal has no name yet."""
    target, request, now = planned.target, planned.request, attempt.now()
    digest_key = derived_keys.digest_key()
    state = TargetState(
        commit=ref_state.head,
        ref=ref_state.event.ref,
        rule_digest=ref_state.rule_digest,
        generation=target.generation,
        at=now,
        task_id=attempt.task.id,
        override_commit=ref_state.override_commit,
        files=target.files.files,
        keys=applied_keys(request, planned.plan, digest_key),
    )
    retained = retained_keys(
        planned.plan, target.ledger, request.live, digest_key=digest_key, now=now
    )
    return Intent(state=state, journal="", retained=retained)


def _new_ledger(ref_state: RefState, target: Target) -> Ledger:
    place = target.place
    return Ledger(
        unit_id="",
        rule_id=place.rule,
        tenant=place.tenant,
        platform=ref_state.rule.platform,
        datasource=place.datasource,
        kind=target.destination.kind,
        repo=place.repo,
        env=place.env,
        destination=target.destination.name,
        destination_id=target.destination.id,
        digest_key_id="",
    )


def _put(attempt: Attempt, ref_state: RefState, planned: TargetPlan) -> None:
    """Write all puts of a target; after a conflict plan again, as often as the sink allows."""
    target = planned.target
    marker = _marker(attempt, target, ref_state.event.ref, ref_state.head)
    while True:
        try:
            target.sink.write(target.destination, planned.plan.puts, marker)
        except SinkConflict:
            if not planned.replans_left:
                raise
            planned.replans_left -= 1
            planned.request = read_destination(target, planned.request)
            planned.plan = plan_apply(planned.request)
            store_intent(attempt, ref_state, planned)
        else:
            return


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


def _verify(planned: TargetPlan) -> None:
    target, plan = planned.target, planned.plan
    touched = {put.record for put in plan.puts} | {gone.record for gone in plan.deletes}
    if not touched:
        return
    live = target.sink.read(target.destination, target.owner, sorted(touched))
    if wrong := plan.unverified_records(live):
        raise TaskError("verify_failed", f"{len(wrong)} record(s) do not read back as written")


def commit_targets(attempt: Attempt, ref_state: RefState, planned: Sequence[TargetPlan]) -> None:
    """Commit the intents; what an error leaves undone here, the next attempt finishes.

    The ledger of a purged target is deleted, unless keys were retained.
    """
    keep = attempt.ports.repositories.keep
    for each in planned:
        _log_changes(each)
        ledger = each.target.ledger
        if ledger is None or ledger.intent is None:
            continue
        ledger = each.target.ledger = commit_intent(ledger)
        if ref_state.tree is not None:
            try:
                keep(ref_state.source, ledger.unit_id, ref_state.head)
            except GitError as error:
                log.warning("commit %s was not kept in the cache: %s", ref_state.head, error)
        if attempt.request.purge and not ledger.retained:
            ledger_records.delete(ledger.unit_id, ledger.version)


def _log_changes(planned: TargetPlan) -> None:
    """Log `key_changed` for each written key that is to be logged, without values of secrets."""
    before = planned.request.live_values
    for key in sorted(planned.logged & planned.plan.written):
        wanted = planned.request.desired[key]
        values = {} if wanted.secret else {"from": before.get(key), "to": wanted.value}
        log.info("%s changed", key, extra={"event": "key_changed", "key": key, **values})


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
    _undo(attempt, target, ref, commit)
    return ()


def _undo(attempt: Attempt, target: Target, ref: str, commit: str) -> None:
    """Undo the writes of an earlier attempt, which can no longer write."""
    marker = _marker(attempt, target, ref, commit)
    target.sink.fence(target.destination, target.owner, target.generation)
    attempt.heartbeat.restoring = True
    try:
        _restore(target, marker)
    finally:
        attempt.heartbeat.restoring = False


def _restore_all(attempt: Attempt, ref_state: RefState, failure: TargetFailed) -> None:
    """Restore targets in reverse; one that cannot be restored keeps its intent."""
    attempt.heartbeat.restoring = True
    try:
        for each in reversed(failure.planned):
            if each.target.has_intent:
                marker = _marker(attempt, each.target, ref_state.event.ref, ref_state.head)
                each.restored = _restore(each.target, marker)
    except TaskError as error:
        log.warning("restore after %s: %s", task_error(failure.cause).code, error)
        failure.cause = error
    finally:
        attempt.heartbeat.restoring = False


def _restore(target: Target, marker: TargetMarker) -> int:
    """Write back what the intent replaced, and clear it; return the number of keys.

    Raises TaskError(restore_failed) and keeps the intent.
    """
    assert target.ledger is not None
    try:
        keys = _write_back(target, target.ledger, marker)
    except SinkError as error:
        counters.count_restore("error")
        raise TaskError("restore_failed", f"{error.code}: {error.detail}") from error
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
