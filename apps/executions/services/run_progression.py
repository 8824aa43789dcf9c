"""The progression of a run: steps to queue or skip, the verdict, the teardown, the final status.

Each function changes the run aggregate by what the plan decides; the caller saves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from apps.executions import conf
from apps.executions.domain.events import RUN_SOURCE, in_words
from apps.executions.domain.plan import (
    Decision,
    Replacement,
    Skip,
    decide,
    replacement,
    upstream,
)
from apps.executions.domain.states import (
    TERMINAL_STEP,
    CancelReason,
    ExecutionEvent,
    ExecutionStatus,
    RunReason,
    StatusCode,
    StepReason,
    StepStatus,
    advance_execution,
    indexes_with,
)
from apps.executions.domain.verdict import RunOutcome, run_sentence
from apps.executions.selectors.runs import cancellation
from apps.executions.selectors.verdicts import chain_from, failed_step, upstream_cause
from apps.executions.services import kept_environments, step_transitions
from apps.executions.services.run_aggregate import RunAggregate
from apps.executions.services.telemetry import run_finished, trace_run
from kernel.agent_protocol import LogLine
from kernel.clock import rfc3339

TEARDOWN_WITHIN: Final = timedelta(seconds=60)
STOPPED_WITHIN: Final = timedelta(seconds=30)


def progress_run(run: RunAggregate) -> None:
    """Apply what the plan decides; set the final status once every step and job has ended."""
    if run.is_planning:
        _reset_dependents(run)
    if run.is_planning:
        _apply_plan(run)
    if not run.is_over and _is_drained(run):
        _finish(run)


def boot(run: RunAggregate) -> None:
    """Admit a queued run: start its time and queue its root steps."""
    _advance(run, ExecutionEvent.ADMITTED)
    run.change_run(booted_at=run.now, deadline=run.now + conf.max_duration())
    run.emit_run_event("booting", f"admitted, {run.execution.total_steps} steps")
    progress_run(run)


def cancel_run(run: RunAggregate, reason: str, *, by: str) -> None:
    """Cancel a run that is `Queued` (at once) or `Booting`; else raise IllegalTransition.

    `by` is who asked for it, as people read it.
    """
    _advance(run, ExecutionEvent.CANCEL_REQUESTED)
    kept_environments.forget_keeping(run)
    run.change_run(
        cancel_reason=reason,
        canceled_by=by,
        canceled_at=run.now,
        verdict="",
        reason="",
        reason_detail="",
        deadline=run.now + STOPPED_WITHIN,
    )
    _store_sentence(run)
    if run.execution.status == ExecutionStatus.CANCELING:
        run.emit_run_event("canceling", _cancel_text(run, "cancel requested"), level="warn")
    for index in _waiting(run):
        step_transitions.cancel(run, index)
    _stop_open_jobs(run, CancelReason.CANCELED)
    if run.execution.status == ExecutionStatus.CANCELED:
        _end(run, _cancel_text(run, "canceled", " before it started"))
    else:
        progress_run(run)


def fail_run(run: RunAggregate, reason: RunReason, detail: str) -> None:
    """Fail the run as a whole. It has the reason at once and ends when its jobs have stopped."""
    _decide_failure(run, reason, detail)
    progress_run(run)


def force_end(run: RunAggregate) -> None:
    """End what is still open after the time for stopping; later reports of it are stale."""
    for index in run.open_jobs():
        step_transitions.end_stopped(run, index)
    progress_run(run)


def _decide_failure(run: RunAggregate, reason: RunReason, detail: str) -> None:
    run.change_run(
        failing=True,
        reason=reason,
        reason_detail=detail,
        verdict=ExecutionStatus.FAILED,
        deadline=run.now + STOPPED_WITHIN,
    )
    _store_sentence(run)
    for index in _waiting(run):
        step_transitions.skip(run, index, Skip(StepReason.RUN_FAILED))
    kept_environments.decide_keeping(run, ExecutionStatus.FAILED, reason)
    late = reason is RunReason.RUN_TIMEOUT
    _stop_open_jobs(run, CancelReason.TIMEOUT if late else CancelReason.CANCELED)


def _waiting(run: RunAggregate) -> list[int]:
    waiting = (StepStatus.PENDING, StepStatus.QUEUED)
    return [index for index, status in enumerate(run.statuses) if status in waiting]


def _reset_dependents(run: RunAggregate) -> None:
    """Reset what ran against replaced services; fail the run if a part of it must not run twice."""
    services, run.replaced = run.replaced, {}
    failures, run.deferred_failures = run.deferred_failures, {}
    if not services:
        return
    not_selected = set(run.not_selected)
    found = replacement(run.plan, run.statuses, services, not_selected=not_selected)
    if not found.stuck:
        _reset(run, services, found)
        return
    for index, failure in failures.items():
        step_transitions.fail(
            run, index, failure.reason, failure.detail, exit_code=failure.exit_code
        )
    if run.execution.failing:
        _decide_failure(run, RunReason.STEP_FAILED, _first_failure(run))
    else:
        _decide_failure(run, RunReason.DEPENDENCY_REPLACED, _stuck_text(run, services, found))


def _reset(run: RunAggregate, services: Iterable[int], found: Replacement) -> None:
    run.load_steps(found.reset)
    causes = [run.step(index).cause for index in services if run.step(index).cause]
    text = f"{_names(run, services)} restarted: this step ran against the previous instance"
    for index in found.reset:
        step_transitions.reset(run, index, text, *causes[:1])


def _stuck_text(run: RunAggregate, services: Mapping[int, str], found: Replacement) -> str:
    """Name the replaced services, the time and the reason, and the steps that cannot run again."""
    reasons = "; ".join(dict.fromkeys(services.values()))
    return (
        f"{_names(run, services)} was replaced at {rfc3339(run.now)} ({reasons}) after "
        f"{_names(run, found.started)} had run against it, and {_names(run, found.stuck)} "
        "is not idempotent"
    )


def _names(run: RunAggregate, indexes: Iterable[int]) -> str:
    return ", ".join(run.plan.nodes[index].id for index in indexes)


def _apply_plan(run: RunAggregate) -> None:
    decision = _decide(run)
    while _apply_decision(run, decision):
        decision = _decide(run)
    if decision.verdict is not None:
        _give_verdict(run, healthy=decision.verdict)


def _decide(run: RunAggregate) -> Decision:
    return decide(
        run.plan,
        run.statuses,
        max_parallel=conf.max_parallel_steps(),
        again=set(indexes_with(run.status_codes, StatusCode.QUEUED_AGAIN)),
        not_selected=set(run.not_selected),
    )


def _apply_decision(run: RunAggregate, decision: Decision) -> bool:
    """Return whether a queued step has already ended, so that there is more to decide."""
    if decision.failing and not run.execution.failing:
        run.change_run(failing=True)
        _store_sentence(run)
    reset = indexes_with(run.status_codes, StatusCode.PENDING_AGAIN)
    causes = [skip.because for skip in decision.skip.values() if skip.because is not None]
    run.load_steps([*causes, *set(reset).intersection(decision.start)])
    for index in decision.cancel:
        step_transitions.cancel(run, index, "canceled with what it depends on")
    for index, skip in decision.skip.items():
        step_transitions.skip(run, index, skip)
    ended = [step_transitions.queue(run, index) for index in decision.start]
    return any(ended)


def _give_verdict(run: RunAggregate, *, healthy: bool) -> None:
    verdict = ExecutionStatus.HEALTHY if healthy else ExecutionStatus.FAILED
    run.change_run(verdict=verdict)
    if not healthy:
        run.change_run(reason=RunReason.STEP_FAILED, reason_detail=_first_failure(run))
    kept_environments.decide_keeping(run, verdict, run.execution.reason)
    if run.open_jobs():
        run.change_run(deadline=run.now + TEARDOWN_WITHIN)
        _stop_open_jobs(run, CancelReason.TEARDOWN)


def _store_sentence(run: RunAggregate) -> None:
    """Store why the run failed or was canceled, so that lists need no rows of its steps."""
    execution = run.execution
    failed = None if execution.reason not in ("", RunReason.STEP_FAILED) else _first_failed(run)
    outcome = RunOutcome(
        run_id=execution.run_id,
        status=execution.status,
        failing=execution.failing,
        reason=execution.reason,
        detail=execution.reason_detail,
        counts=Counter(run.statuses),
        canceled=cancellation(execution),
        failed=[] if failed is None else [failed_step(run.step(failed), run.definition)],
    )
    run.change_run(sentence=run_sentence(outcome))


def _first_failed(run: RunAggregate) -> int | None:
    """Return the step that failed the run: of those that must not fail, the first that ended."""
    nodes = run.plan.nodes
    hard = [
        index
        for index, status in enumerate(run.statuses)
        if status is StepStatus.FAILED and not nodes[index].continue_on_failure
    ]
    run.load_steps(hard)
    return min(hard, key=lambda index: (run.step(index).finished_at, index), default=None)


def _first_failure(run: RunAggregate) -> str:
    first = _first_failed(run)
    if first is None:
        return ""
    chain = chain_from(run.step(first))
    if run.step(first).cause:
        return in_words(chain)
    before = upstream(run.plan, first)
    run.load_steps(before)
    return in_words([*chain, *upstream_cause(map(run.step, before))])


def _stop_open_jobs(run: RunAggregate, reason: CancelReason) -> None:
    indexes = run.open_jobs()
    run.load_steps(indexes)
    for index in indexes:
        if run.plan.nodes[index].kind == "mock":  # it only waits; no supervisor has it
            step_transitions.cancel(run, index)
        else:
            step_transitions.request_stop(
                run, index, kept_environments.stop_reason(run, index, reason)
            )


def _is_drained(run: RunAggregate) -> bool:
    execution = run.execution
    if not execution.verdict and execution.status != ExecutionStatus.CANCELING:
        return False
    return not run.open_jobs() and all(status in TERMINAL_STEP for status in run.statuses)


def _finish(run: RunAggregate) -> None:
    execution = run.execution
    if execution.status == ExecutionStatus.CANCELING:
        _advance(run, ExecutionEvent.DRAINED)
        _end(run, _cancel_text(run, "canceled"))
    elif execution.verdict == ExecutionStatus.HEALTHY:
        _advance(run, ExecutionEvent.STEPS_HEALTHY)
        _end(run, _count_statuses(run))
    else:
        by_steps = execution.reason == RunReason.STEP_FAILED
        if by_steps:  # a service may have ended before a step that failed, and be reported after it
            run.change_run(reason_detail=_first_failure(run))
        _advance(run, ExecutionEvent.STEPS_FAILED if by_steps else ExecutionEvent.RUN_FAILED)
        _end(run)


def _cancel_text(run: RunAggregate, what: str, when: str = "") -> str:
    execution = run.execution
    by = f" by {execution.canceled_by}" if execution.canceled_by else ""
    why = f": {execution.cancel_reason}" if execution.cancel_reason else ""
    return f"{what}{by}{when}{why}"


def _advance(run: RunAggregate, event: ExecutionEvent) -> None:
    current = ExecutionStatus(run.execution.status)
    run.change_run(status=advance_execution(current, event))


def _end(run: RunAggregate, text: str = "") -> None:
    """End the run with its final status; `text` is that of the event, by default the sentence."""
    execution = run.execution
    run.change_run(finished_at=run.now, deadline=None)
    if not kept_environments.begin_keeping(run):
        run.change_run(bound_agent_id="")
    if execution.status != ExecutionStatus.HEALTHY:
        _store_sentence(run)
    run.record_metric(run_finished(execution))
    trace_run(run)
    if execution.log_lines_dropped:
        dropped = f"{execution.log_lines_dropped} lines of output were dropped"
        run.append_log(RUN_SOURCE, [LogLine(run.now, "warn", "system", dropped)])
    level = {ExecutionStatus.HEALTHY: "info", ExecutionStatus.CANCELED: "warn"}
    status = ExecutionStatus(execution.status)
    run.emit_run_event(
        status.lower(),
        text or execution.sentence,
        level=level.get(status, "error"),
        reason=str(execution.reason),
    )


def _count_statuses(run: RunAggregate) -> str:
    counts = {status: run.statuses.count(status) for status in StepStatus}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)
