"""Plan all targets, then write or restore all of them (reference: sync-stack 4.8, steps 4 to 9)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sync_stack.core.ownership import PlanRefused
from sync_stack.core.plan import Plan
from sync_stack.core.sink import SinkConflict, batches
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.services.execution import results
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.intents import (
    commit_intent,
    mark_of,
    restore,
    settle,
    store_intent,
)
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.target_plan import (
    Planned,
    PlanStopped,
    cleanup_request,
    desired_keys,
    plan_unit,
    shape_unit,
    told_keys,
)
from sync_stack.orchestrator.services.execution.targets import Unit
from sync_stack.repositories import GitError, TreeEntry

log: Final = logging.getLogger(__name__)


class UnitFailed(Exception):
    """An error and the unit it happened in; of a dry run, the plans that there are."""

    def __init__(
        self,
        unit: Unit,
        error: TaskError,
        *,
        stopped: Plan | None = None,
        planned: Sequence[Planned] = (),
    ) -> None:
        super().__init__(str(error))
        self.unit = unit
        self.error = error
        self.stopped = stopped
        self.planned = planned


class RuleSyncFailed(Exception):
    """A part came to nothing; `targets` say so."""

    def __init__(self, error: TaskError, targets: list[dict[str, Any]]) -> None:
        super().__init__(str(error))
        self.error = error
        self.targets = targets


def apply_units(
    attempt: Attempt,
    part: RuleSync,
    reading: RefState,
    units: Sequence[Unit],
    tree: Mapping[str, TreeEntry],
) -> dict[str, Any]:
    """The part's outcome, committed. Raises RuleSyncFailed, LostTask."""
    try:
        planned, idle = _plan_all(attempt, part, reading, units, tree)
    except UnitFailed as failure:
        raise _failed(reading, units, failure, failure.planned) from failure
    if reading.rule.dry_run:
        outcome = results.outcome_of_plan(reading, planned, idle)
        attempt.finish_part(part, outcome)
        return outcome
    if planned:
        _write_all(attempt, part, reading, planned)
    outcome = results.outcome_of_apply(reading, planned, idle)
    attempt.finish_part(part, outcome)
    _settle_all(attempt, reading, planned)
    return outcome


def clean_up(
    attempt: Attempt, part: RuleSync, reading: RefState, units: Sequence[Unit]
) -> dict[str, Any]:
    """Delete what the units own: their ref is gone. Raises RuleSyncFailed, LostTask."""
    planned = []
    for unit in units:
        try:
            older = settle(attempt, reading, unit)
            request, plan = cleanup_request(attempt, reading, unit)
        except KNOWN_ERRORS as error:
            raise _failed(reading, units, UnitFailed(unit, task_error(error))) from error
        planned.append(results.without_files(unit, request, plan, older))
    if planned and not reading.rule.dry_run:
        _write_all(attempt, part, reading, planned)
    outcome = results.outcome_of_cleanup(reading, planned)
    attempt.finish_part(part, outcome)
    _settle_all(attempt, reading, planned)
    return outcome


def _plan_all(
    attempt: Attempt,
    part: RuleSync,
    reading: RefState,
    units: Sequence[Unit],
    tree: Mapping[str, TreeEntry],
) -> tuple[list[Planned], list[tuple[Unit, str]]]:
    """Plans, and the units with nothing to do: `no_files`, `env_not_in_file`. Raises UnitFailed.

    A guard that stops a dry run stops it only after the other units are planned.
    """
    attempt.stage("plan", 0.25)
    planned: list[Planned] = []
    idle: list[tuple[Unit, str]] = []
    failure: UnitFailed | None = None
    for unit in units:
        try:
            found = _plan(attempt, part, reading, unit, tree)
            if isinstance(found, str):
                idle.append((unit, found))
                continue
            _refuse_shared(found, planned)
        except PlanStopped as error:
            failure = failure or UnitFailed(
                unit, task_error(error), stopped=error.plan, planned=planned
            )
            continue
        except KNOWN_ERRORS as error:
            raise UnitFailed(unit, task_error(error)) from error
        planned.append(found)
    if failure:
        raise failure
    return planned, idle


def _plan(
    attempt: Attempt, part: RuleSync, reading: RefState, unit: Unit, tree: Mapping[str, TreeEntry]
) -> Planned | str:
    older = () if reading.rule.dry_run else settle(attempt, reading, unit)
    if not unit.files.files:
        return "no_files"
    shape = shape_unit(attempt, part, reading, unit, tree)
    if shape.shaped.env_not_in_file:
        return "env_not_in_file"
    desired = desired_keys(attempt, reading, unit, shape.shaped)
    request, plan = plan_unit(attempt, part, reading, unit, desired)
    return Planned(
        unit=unit,
        shaped=shape.shaped,
        formats=shape.formats,
        request=request,
        plan=plan,
        older=older,
        replans_left=unit.sink.capabilities.replans,
        told=told_keys(unit, shape.shaped),
    )


def _refuse_shared(found: Planned, others: Sequence[Planned]) -> None:
    """Two units of one part must not write one record."""
    mine = {put.record for put in found.plan.puts}
    for other in others:
        if other.unit.destination.id != found.unit.destination.id:
            continue
        if shared := mine & {put.record for put in other.plan.puts}:
            detail = f"{min(shared)!r} belongs to environment {other.unit.place.env!r} as well"
            raise PlanRefused("ownership_conflict", detail, shared)


def _write_all(
    attempt: Attempt, part: RuleSync, reading: RefState, planned: Sequence[Planned]
) -> None:
    """Intents, every write, every delete, then a look. Raises RuleSyncFailed, LostTask."""
    attempt.stage("apply", 0.5)
    current = planned[0]
    try:
        for current in planned:
            store_intent(attempt, part, reading, current)
        for current in planned:
            _put(attempt, part, reading, current)
        for current in planned:
            _remove(attempt, reading, current)
        attempt.stage("verify", 0.75)
        for current in planned:
            _verify(current)
    except KNOWN_ERRORS as error:
        failure = UnitFailed(current.unit, task_error(error))
        if failure.error.code != "stale_generation":
            _restore_all(attempt, reading, planned, failure)
        raise _failed(reading, [each.unit for each in planned], failure, planned) from error


def _put(attempt: Attempt, part: RuleSync, reading: RefState, planned: Planned) -> None:
    """All puts of a unit; when somebody wrote meanwhile, as often again as the sink allows."""
    unit = planned.unit
    while True:
        try:
            for puts in batches(planned.plan.puts, unit.sink.capabilities):
                unit.sink.write(unit.destination, puts, mark_of(attempt, reading, unit))
        except SinkConflict:
            if not planned.replans_left:
                raise
            planned.replans_left -= 1
            _replan(attempt, part, reading, planned)
        else:
            return


def _replan(attempt: Attempt, part: RuleSync, reading: RefState, planned: Planned) -> None:
    desired = planned.request.desired
    planned.request, planned.plan = plan_unit(attempt, part, reading, planned.unit, desired)
    store_intent(attempt, part, reading, planned)


def _remove(attempt: Attempt, reading: RefState, planned: Planned) -> None:
    unit = planned.unit
    generation = mark_of(attempt, reading, unit).generation
    for deletes in batches(planned.plan.deletes, unit.sink.capabilities):
        unit.sink.delete(unit.destination, deletes, unit.owner, generation)


def _verify(planned: Planned) -> None:
    unit, plan = planned.unit, planned.plan
    touched = {put.record for put in plan.puts} | {gone.record for gone in plan.deletes}
    if not touched:
        return
    live = unit.sink.read(unit.destination, unit.owner, sorted(touched))
    if wrong := plan.unverified(live):
        raise TaskError("verify_failed", f"{len(wrong)} record(s) do not read back as written")


def _restore_all(
    attempt: Attempt, reading: RefState, planned: Sequence[Planned], failure: UnitFailed
) -> None:
    """In reverse; a unit that cannot be given back keeps its intent and says so."""
    attempt.beat.restoring = True
    try:
        for each in reversed(planned):
            ledger = each.unit.ledger
            if ledger is None or ledger.intent is None:
                continue
            mark = mark_of(attempt, reading, each.unit)
            each.unit.ledger, each.restored = restore(each.unit, ledger, mark)
    except TaskError as error:
        log.warning("restore after %s: %s", failure.error.code, error)
        failure.error = error
    finally:
        attempt.beat.restoring = False


def _failed(
    reading: RefState,
    units: Sequence[Unit],
    failure: UnitFailed,
    planned: Sequence[Planned] = (),
) -> RuleSyncFailed:
    targets = results.failed_targets(reading, units, failure.unit, failure.error, planned)
    if reading.rule.dry_run:
        targets = results.with_plans(reading, targets, planned, failure.stopped)
    return RuleSyncFailed(failure.error, targets)


def _settle_all(attempt: Attempt, reading: RefState, planned: Sequence[Planned]) -> None:
    """After the commit nothing fails the part: what is left undone, any attempt finishes."""
    for each in planned:
        _log_changes(each)
        ledger = each.unit.ledger
        if ledger is not None and ledger.intent is not None:
            each.unit.ledger = commit_intent(ledger)
            _keep(attempt, reading, ledger.unit_id)


def _log_changes(planned: Planned) -> None:
    """`key_changed` of every key that is written and wanted in the log; of secrets, no values."""
    before = planned.request.live_values
    for key in sorted(planned.told & planned.plan.written):
        wanted = planned.request.desired[key]
        values = {} if wanted.secret else {"from": before.get(key), "to": wanted.value}
        log.info("%s changed", key, extra={"event": "key_changed", "key": key, **values})


def _keep(attempt: Attempt, reading: RefState, unit_id: str) -> None:
    if reading.gone or reading.closed:
        return
    try:
        attempt.ports.repositories.keep(reading.source, unit_id, reading.head)
    except GitError as error:
        log.warning("commit %s is not kept in the cache: %s", reading.head, error)
