"""Write what is planned at all targets, or restore all of them; then commit the intents.

(reference: sync-stack 4.8, steps 6 to 9)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sync_stack.core.journal import merge_journals
from sync_stack.core.ledger import Intent, Ledger, TargetState
from sync_stack.core.plan import applied_keys, plan_apply, retained_keys
from sync_stack.core.sink import SinkConflict, SinkError, batches
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator import derived_keys
from sync_stack.orchestrator.services import journals, ledger_records
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.execution.intents import commit_intent, marker_of, restore
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.target_content import logged_keys, read_destination
from sync_stack.orchestrator.services.execution.targets import Target, TargetFailed, TargetPlan
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
            target = current.target
            for deletes in batches(current.plan.deletes, target.sink.capabilities):
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
    journal = merge_journals(planned.journal, planned.plan.journal)
    before = target.ledger.intent.journal if target.ledger and target.ledger.intent else ""
    name = journals.store(journal, task_id=attempt.task.id) if journal else ""
    ledger = replace(
        target.ledger or _new_ledger(ref_state, target),
        intent=_intent(attempt, ref_state, planned, name),
        digest_key_id=derived_keys.digest_key_id(),
        stale_since="",
        destination=target.destination.name,
    )
    if target.ledger is None:
        saved = ledger_records.create(ledger, target.destination)
    else:
        saved = ledger_records.save(ledger)
    if saved is None:
        raise TaskError("destination_busy", "another task has changed the ledger")
    target.ledger, planned.journal = saved, journal
    if before and before != name:
        journals.delete(before)


def _intent(attempt: Attempt, ref_state: RefState, planned: TargetPlan, journal: str) -> Intent:
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
    return Intent(state=state, journal=journal, retained=retained)


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
        digest_key_id=derived_keys.digest_key_id(),
    )


def _put(attempt: Attempt, ref_state: RefState, planned: TargetPlan) -> None:
    """Write all puts of a target; after a conflict plan again, as often as the sink allows."""
    target = planned.target
    while True:
        try:
            for puts in batches(planned.plan.puts, target.sink.capabilities):
                target.sink.write(target.destination, puts, marker_of(attempt, ref_state, target))
        except SinkConflict:
            if not planned.replans_left:
                raise
            planned.replans_left -= 1
            planned.request = read_destination(target, planned.request)
            planned.plan = plan_apply(planned.request)
            store_intent(attempt, ref_state, planned)
        else:
            return


def _verify(planned: TargetPlan) -> None:
    target, plan = planned.target, planned.plan
    touched = {put.record for put in plan.puts} | {gone.record for gone in plan.deletes}
    if not touched:
        return
    live = target.sink.read(target.destination, target.owner, sorted(touched))
    if wrong := plan.unverified_records(live):
        raise TaskError("verify_failed", f"{len(wrong)} record(s) do not read back as written")


def _restore_all(attempt: Attempt, ref_state: RefState, failure: TargetFailed) -> None:
    """Restore targets in reverse; one that cannot be restored keeps its intent."""
    attempt.heartbeat.restoring = True
    try:
        for each in reversed(failure.planned):
            target = each.target
            if target.ledger is not None and target.ledger.intent is not None:
                marker = marker_of(attempt, ref_state, target)
                target.ledger, each.restored = restore(target, target.ledger, marker)
    except TaskError as error:
        log.warning("restore after %s: %s", task_error(failure.cause).code, error)
        failure.cause = error
    finally:
        attempt.heartbeat.restoring = False


def commit_targets(attempt: Attempt, ref_state: RefState, planned: Sequence[TargetPlan]) -> None:
    """Commit the intents; what an error leaves undone here, the next attempt finishes."""
    for each in planned:
        _log_changes(each)
        ledger = each.target.ledger
        if ledger is not None and ledger.intent is not None:
            each.target.ledger = commit_intent(ledger)
            _keep(attempt, ref_state, ledger.unit_id)


def _log_changes(planned: TargetPlan) -> None:
    """Log `key_changed` for each written key that is to be logged, without values of secrets."""
    before = planned.request.live_values
    for key in sorted(logged_keys(planned.target, planned.shaped) & planned.plan.written):
        wanted = planned.request.desired[key]
        values = {} if wanted.secret else {"from": before.get(key), "to": wanted.value}
        log.info("%s changed", key, extra={"event": "key_changed", "key": key, **values})


def _keep(attempt: Attempt, ref_state: RefState, unit_id: str) -> None:
    if ref_state.gone or ref_state.closed:
        return
    try:
        attempt.ports.repositories.keep(ref_state.source, unit_id, ref_state.head)
    except GitError as error:
        log.warning("commit %s was not kept in the cache: %s", ref_state.head, error)
