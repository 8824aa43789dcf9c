"""Plan all targets, then write or restore all of them (reference: sync-stack 4.8, steps 4 to 9)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from sync_stack.core.ownership import PlanRefused
from sync_stack.core.plan import Plan
from sync_stack.core.sink import SinkConflict, batches
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome, TargetOutcome
from sync_stack.orchestrator.services.execution import results
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.execution.intents import (
    commit_intent,
    finish_intent,
    marker_of,
    restore,
    store_intent,
)
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.target_plan import (
    PlanStopped,
    TargetPlan,
    cleanup_request,
    desired_keys,
    logged_keys,
    plan_target,
    shape_target,
)
from sync_stack.orchestrator.services.execution.targets import Target
from sync_stack.repositories import GitError, TreeEntry

log: Final = logging.getLogger(__name__)


class TargetFailed(Exception):
    """An error at one target; in a dry run with the plans of the others."""

    def __init__(
        self,
        target: Target,
        error: TaskError,
        *,
        stopped: Plan | None = None,
        planned: Sequence[TargetPlan] = (),
    ) -> None:
        super().__init__(str(error))
        self.target = target
        self.error = error
        self.stopped = stopped
        self.planned = planned


class RuleSyncFailed(Exception):
    """A rule sync failed; `targets` are those of its outcome."""

    def __init__(self, error: TaskError, targets: Sequence[TargetOutcome]) -> None:
        super().__init__(str(error))
        self.error = error
        self.targets = targets


def apply_targets(
    attempt: Attempt,
    ref_state: RefState,
    targets: Sequence[Target],
    tree: Mapping[str, TreeEntry],
) -> RuleSyncOutcome:
    """Plan and write targets; return the stored outcome. Raises RuleSyncFailed, LostTask."""
    try:
        planned, idle = _plan_all(attempt, ref_state, targets, tree)
    except TargetFailed as failure:
        raise _failure_of(ref_state, targets, failure, failure.planned) from failure
    if ref_state.rule.dry_run:
        outcome = results.outcome_of_plan(ref_state, planned, idle)
        return attempt.finish_rule_sync(ref_state.sync, outcome)
    if planned:
        _write_all(attempt, ref_state, planned)
    outcome = results.outcome_of_apply(ref_state, planned, idle)
    attempt.finish_rule_sync(ref_state.sync, outcome)
    _finish_intents(attempt, ref_state, planned)
    return outcome


def clean_up(attempt: Attempt, ref_state: RefState, targets: Sequence[Target]) -> RuleSyncOutcome:
    """Delete what targets own whose ref is gone. Raises RuleSyncFailed, LostTask."""
    planned = []
    for target in targets:
        try:
            older = finish_intent(attempt, ref_state, target)
            request, plan = cleanup_request(attempt, ref_state, target)
        except KNOWN_ERRORS as error:
            raise _failure_of(
                ref_state, targets, TargetFailed(target, task_error(error))
            ) from error
        planned.append(results.without_files(target, request, plan, older))
    if planned and not ref_state.rule.dry_run:
        _write_all(attempt, ref_state, planned)
    outcome = results.outcome_of_cleanup(ref_state, planned)
    attempt.finish_rule_sync(ref_state.sync, outcome)
    _finish_intents(attempt, ref_state, planned)
    return outcome


def _plan_all(
    attempt: Attempt,
    ref_state: RefState,
    targets: Sequence[Target],
    tree: Mapping[str, TreeEntry],
) -> tuple[list[TargetPlan], list[tuple[Target, str]]]:
    """Return plans, and idle targets with `no_files` or `env_not_in_file`. Raises TargetFailed.

    A guard stops a dry run only after the other targets are planned.
    """
    attempt.stage("plan", 0.25)
    planned: list[TargetPlan] = []
    idle: list[tuple[Target, str]] = []
    failure: TargetFailed | None = None
    for target in targets:
        try:
            found = _plan(attempt, ref_state, target, tree)
            if isinstance(found, str):
                idle.append((target, found))
                continue
            _refuse_shared(found, planned)
        except PlanStopped as error:
            failure = failure or TargetFailed(
                target, task_error(error), stopped=error.plan, planned=planned
            )
            continue
        except KNOWN_ERRORS as error:
            raise TargetFailed(target, task_error(error)) from error
        planned.append(found)
    if failure:
        raise failure
    return planned, idle


def _plan(
    attempt: Attempt,
    ref_state: RefState,
    target: Target,
    tree: Mapping[str, TreeEntry],
) -> TargetPlan | str:
    older = () if ref_state.rule.dry_run else finish_intent(attempt, ref_state, target)
    if not target.files.files:
        return "no_files"
    shape = shape_target(attempt, ref_state, target, tree)
    if shape.shaped.env_not_in_file:
        return "env_not_in_file"
    desired = desired_keys(attempt, ref_state, target, shape.shaped)
    request, plan = plan_target(attempt, ref_state, target, desired)
    return TargetPlan(
        target=target,
        shaped=shape.shaped,
        formats=shape.formats,
        request=request,
        plan=plan,
        older=older,
        replans_left=target.sink.capabilities.replans,
        logged_keys=logged_keys(target, shape.shaped),
    )


def _refuse_shared(found: TargetPlan, others: Sequence[TargetPlan]) -> None:
    """Raise PlanRefused if another target of the rule sync writes one of these records."""
    records = {put.record for put in found.plan.puts}
    for other in others:
        if other.target.destination.id != found.target.destination.id:
            continue
        if shared := records & {put.record for put in other.plan.puts}:
            detail = f"{min(shared)!r} also belongs to environment {other.target.place.env!r}"
            raise PlanRefused("ownership_conflict", detail, shared)


def _write_all(attempt: Attempt, ref_state: RefState, planned: Sequence[TargetPlan]) -> None:
    """Store intents, write, delete, verify; restore after an error. Raises RuleSyncFailed."""
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
        failure = TargetFailed(current.target, task_error(error))
        if failure.error.code != "stale_generation":
            _restore_all(attempt, ref_state, planned, failure)
        raise _failure_of(ref_state, [each.target for each in planned], failure, planned) from error


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
            desired = planned.request.desired
            planned.request, planned.plan = plan_target(attempt, ref_state, target, desired)
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


def _restore_all(
    attempt: Attempt, ref_state: RefState, planned: Sequence[TargetPlan], failure: TargetFailed
) -> None:
    """Restore targets in reverse; one that cannot be restored keeps its intent."""
    attempt.heartbeat.restoring = True
    try:
        for each in reversed(planned):
            ledger = each.target.ledger
            if ledger is None or ledger.intent is None:
                continue
            marker = marker_of(attempt, ref_state, each.target)
            each.target.ledger, each.restored = restore(each.target, ledger, marker)
    except TaskError as error:
        log.warning("restore after %s: %s", failure.error.code, error)
        failure.error = error
    finally:
        attempt.heartbeat.restoring = False


def _failure_of(
    ref_state: RefState,
    targets: Sequence[Target],
    failure: TargetFailed,
    planned: Sequence[TargetPlan] = (),
) -> RuleSyncFailed:
    found = results.failed_targets(ref_state, targets, failure.target, failure.error, planned)
    if ref_state.rule.dry_run:
        found = results.with_plans(ref_state, found, planned, failure.stopped)
    return RuleSyncFailed(failure.error, found)


def _finish_intents(attempt: Attempt, ref_state: RefState, planned: Sequence[TargetPlan]) -> None:
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
    for key in sorted(planned.logged_keys & planned.plan.written):
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
