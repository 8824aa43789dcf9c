"""Write what is planned at all targets, or restore all of them; then commit the intents.

(reference: sync-stack 4.7, 4.8, steps 6 to 9)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sync_stack.core.journal import merge_journals
from sync_stack.core.ledger import Intent, Ledger, TargetState
from sync_stack.core.plan import applied_keys, plan_apply, retained_keys
from sync_stack.core.sink import SinkConflict, SinkError
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator import derived_keys
from sync_stack.orchestrator.services import ledger_records
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.execution.recovery import restore_target
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.target_content import read_destination
from sync_stack.orchestrator.services.execution.target_plans import TargetFailed, TargetPlan
from sync_stack.orchestrator.services.execution.targets import RuleWork, Target, marker_of
from sync_stack.orchestrator.services.ledger_records import commit_intent
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
    marker = marker_of(attempt, target, ref_state.event.ref, ref_state.head)
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


def _verify(planned: TargetPlan) -> None:
    target, plan = planned.target, planned.plan
    touched = plan.put_records | {gone.record for gone in plan.deletes}
    if not touched:
        return
    live = target.sink.read(target.destination, target.owner, sorted(touched))
    if wrong := plan.unverified_records(live):
        raise TaskError("verify_failed", f"{len(wrong)} record(s) do not read back as written")


def commit_targets(attempt: Attempt, work: RuleWork, planned: Sequence[TargetPlan]) -> None:
    """Commit the intents; what an error leaves undone here, the next attempt finishes.

    The ledger of a purged target is deleted, unless keys were retained.
    """
    keep, ref_state = attempt.ports.repositories.keep, work.ref_state
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
        if work.purges and not ledger.retained:
            ledger_records.delete(ledger.unit_id, ledger.version)


def _log_changes(planned: TargetPlan) -> None:
    """Log `key_changed` for each written key that is to be logged, without values of secrets."""
    before = planned.request.live_values
    for key in sorted(planned.content.logged & planned.plan.written):
        wanted = planned.request.desired[key]
        values = {} if wanted.secret else {"from": before.get(key), "to": wanted.value}
        log.info("%s changed", key, extra={"event": "key_changed", "key": key, **values})


def _restore_all(attempt: Attempt, ref_state: RefState, failure: TargetFailed) -> None:
    """Restore targets in reverse; one that cannot be restored keeps its intent."""
    ref, commit = ref_state.event.ref, ref_state.head
    try:
        for each in reversed(failure.planned):
            if each.target.has_intent:
                each.restored = restore_target(attempt, each.target, ref, commit)
    except TaskError as error:
        log.warning("restore after %s: %s", task_error(failure.cause).code, error)
        failure.cause = error
