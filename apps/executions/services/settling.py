"""What follows for a run: starting, skipping, the verdict, the teardown, the final status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from apps.executions import conf
from apps.executions.domain.causes import cause_chain, in_words
from apps.executions.domain.event_ids import RUN_SOURCE
from apps.executions.domain.plan import (
    Decision,
    Replacement,
    Skip,
    decide,
    replacement,
    upstream,
)
from apps.executions.domain.reports import LogLine
from apps.executions.domain.standings import PENDING_AGAIN, QUEUED_AGAIN, places_of
from apps.executions.domain.states import (
    TERMINAL_STEP,
    CancelReason,
    ExecutionEvent,
    ExecutionStatus,
    RunReason,
    StepReason,
    StepStatus,
    advance_execution,
)
from apps.executions.models import Step
from apps.executions.services import moves
from apps.executions.services.board import Board
from apps.executions.services.measuring import run_finished
from apps.executions.services.tracing import trace_run
from kernel.clock import rfc3339

TEARDOWN_WITHIN: Final = timedelta(seconds=60)
STOPPED_WITHIN: Final = timedelta(seconds=30)


def settle(board: Board) -> None:
    """Obey what the plan decides; store the final status once nothing of the run is open."""
    if board.is_planning:
        _start_over(board)
    if board.is_planning:
        _plan(board)
    if not board.is_over and _is_drained(board):
        _finish(board)


def boot(board: Board) -> None:
    """Admit a queued run: its time begins, its root steps are queued."""
    _advance(board, ExecutionEvent.ADMITTED)
    board.change_run(booted_at=board.now, deadline=board.now + conf.max_duration())
    board.say_of_run("booting", f"admitted, {board.execution.total_steps} steps")
    settle(board)


def cancel_run(board: Board, reason: str) -> None:
    """Cancel from `Queued` (at once) or `Booting`; raises IllegalTransition from elsewhere."""
    _advance(board, ExecutionEvent.CANCEL_REQUESTED)
    board.change_run(
        cancel_reason=reason,
        verdict="",
        reason="",
        reason_detail="",
        deadline=board.now + STOPPED_WITHIN,
    )
    if board.execution.status == ExecutionStatus.CANCELING:
        board.say_of_run("canceling", _with_reason("cancel requested", reason), level="warn")
    for at, status in enumerate(board.statuses):
        if status in (StepStatus.PENDING, StepStatus.QUEUED):
            moves.cancel(board, at)
    _stop_open_jobs(board, CancelReason.CANCELED)
    if board.execution.status == ExecutionStatus.CANCELED:
        _store_end(board, _with_reason("canceled before it started", reason))
    else:
        settle(board)


def fail_run(board: Board, reason: RunReason, detail: str) -> None:
    """A failure of the run as a whole: reason and `failing` at once, the end after the drain."""
    board.change_run(
        failing=True,
        reason=reason,
        reason_detail=detail,
        verdict=ExecutionStatus.FAILED,
        deadline=board.now + STOPPED_WITHIN,
    )
    for at, status in enumerate(board.statuses):
        if status in (StepStatus.PENDING, StepStatus.QUEUED):
            moves.skip(board, at, Skip(StepReason.RUN_FAILED))
    late = reason is RunReason.RUN_TIMEOUT
    _stop_open_jobs(board, CancelReason.TIMEOUT if late else CancelReason.CANCELED)
    settle(board)


def force_end(board: Board) -> None:
    """The time for stopping is over: what is still open ends here; reports of it will be stale."""
    for at in board.open_jobs():
        moves.end_stopped(board, at)
    settle(board)


def _start_over(board: Board) -> None:
    """Reset what ran against services that start anew; fail the run if some must not run twice."""
    services, board.replaced = board.replaced, {}
    voided, board.voided = board.voided, {}
    if not services:
        return
    not_selected = set(board.not_selected)
    found = replacement(board.run.plan, board.statuses, services, not_selected=not_selected)
    for fail in voided.values() if found.stuck else ():
        fail()
    if found.stuck and board.execution.failing:
        fail_run(board, RunReason.STEP_FAILED, _first_failure(board))
    elif found.stuck:
        fail_run(board, RunReason.DEPENDENCY_REPLACED, _in_a_sentence(board, services, found))
    else:
        board.load(found.reset)
        names = ", ".join(board.run.plan.nodes[at].id for at in services)
        causes = [board.row(at).cause for at in services if board.row(at).cause]
        text = f"{names} starts anew: it ran against the former one"
        for at in found.reset:
            moves.reset(board, at, text, *causes[:1])


def _in_a_sentence(board: Board, services: Mapping[int, str], found: Replacement) -> str:
    """Say which service was replaced, when and why, what had run against it, what is in the way."""

    def named(places: Iterable[int]) -> str:
        return ", ".join(board.run.plan.nodes[at].id for at in places)

    whys = "; ".join(dict.fromkeys(services.values()))
    return (
        f"{named(services)} was replaced at {rfc3339(board.now)} ({whys}) after "
        f"{named(found.started)} had run against it, and {named(found.stuck)} is not idempotent"
    )


def _plan(board: Board) -> None:
    decision = _decide(board)
    while _obey(board, decision):
        decision = _decide(board)
    if decision.verdict is not None:
        _give_verdict(board, healthy=decision.verdict)


def _decide(board: Board) -> Decision:
    return decide(
        board.run.plan,
        board.statuses,
        max_parallel=conf.max_parallel_steps(),
        again=set(places_of(board.letters, QUEUED_AGAIN)),
        not_selected=set(board.not_selected),
    )


def _obey(board: Board, decision: Decision) -> bool:
    """Returns whether a step that was started ended at once, so that there is more to decide."""
    if decision.failing and not board.execution.failing:
        board.change_run(failing=True)
    again = [at for at in decision.start if board.letters[at] == PENDING_AGAIN]
    causes = [skip.because for skip in decision.skip.values() if skip.because is not None]
    board.load([*causes, *again])
    for at in decision.cancel:
        moves.cancel(board, at, "canceled with what it depends on")
    for at, skip in decision.skip.items():
        moves.skip(board, at, skip)
    ended = [moves.start(board, at) for at in decision.start]
    return any(ended)


def _give_verdict(board: Board, *, healthy: bool) -> None:
    verdict = ExecutionStatus.HEALTHY if healthy else ExecutionStatus.FAILED
    board.change_run(verdict=verdict)
    if not healthy:
        board.change_run(reason=RunReason.STEP_FAILED, reason_detail=_first_failure(board))
    if board.open_jobs():
        board.change_run(deadline=board.now + TEARDOWN_WITHIN)
        _stop_open_jobs(board, CancelReason.TEARDOWN)


def _first_failure(board: Board) -> str:
    nodes = board.run.plan.nodes
    hard = [
        at
        for at, status in enumerate(board.statuses)
        if status is StepStatus.FAILED and not nodes[at].continue_on_failure
    ]
    board.load(hard)
    first = min(hard, key=lambda at: (board.row(at).finished_at, board.row(at).index))
    chain = _link(board.row(first))
    return in_words(chain if board.row(first).cause else [*chain, *_upstream_cause(board, first)])


def _upstream_cause(board: Board, at: int) -> list[dict[str, Any]]:
    """Find the nearest step it depends on that failed too, or that an engine or supervisor lost."""
    places = upstream(board.run.plan, at)
    board.load(places)
    for place in places:
        row = board.row(place)
        if row.status == StepStatus.FAILED:
            return _link(row)
        if row.cause and row.status != StepStatus.SKIPPED:
            return list(row.cause)
    return []


def _link(row: Step) -> list[dict[str, Any]]:
    return cause_chain(row.step_id, reason=row.reason, exit_code=row.exit_code, cause=row.cause)


def _stop_open_jobs(board: Board, why: CancelReason) -> None:
    places = board.open_jobs()
    board.load(places)
    for at in places:
        moves.ask_to_stop(board, at, why)


def _is_drained(board: Board) -> bool:
    execution = board.execution
    if not execution.verdict and execution.status != ExecutionStatus.CANCELING:
        return False
    return not board.open_jobs() and all(status in TERMINAL_STEP for status in board.statuses)


def _finish(board: Board) -> None:
    execution = board.execution
    if execution.status == ExecutionStatus.CANCELING:
        _advance(board, ExecutionEvent.DRAINED)
        _store_end(board, _with_reason("canceled", execution.cancel_reason))
    elif execution.verdict == ExecutionStatus.HEALTHY:
        _advance(board, ExecutionEvent.STEPS_HEALTHY)
        _store_end(board, _census(board))
    else:
        by_steps = execution.reason == RunReason.STEP_FAILED
        if by_steps:  # a service may have ended before a step that failed, and be reported after it
            board.change_run(reason_detail=_first_failure(board))
        _advance(board, ExecutionEvent.STEPS_FAILED if by_steps else ExecutionEvent.RUN_FAILED)
        _store_end(board, execution.reason_detail or str(execution.reason))


def _with_reason(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what


def _advance(board: Board, event: ExecutionEvent) -> None:
    current = ExecutionStatus(board.execution.status)
    board.change_run(status=advance_execution(current, event))


def _store_end(board: Board, text: str) -> None:
    execution = board.execution
    board.change_run(finished_at=board.now, deadline=None, bound_agent_id="")
    board.measure(run_finished(execution))
    trace_run(board)
    if execution.log_lines_dropped:
        dropped = f"{execution.log_lines_dropped} lines of output were not kept"
        board.print(RUN_SOURCE, [LogLine(board.now, "warn", "system", dropped)])
    level = {ExecutionStatus.HEALTHY: "info", ExecutionStatus.CANCELED: "warn"}
    status = ExecutionStatus(execution.status)
    board.say_of_run(
        status.lower(), text, level=level.get(status, "error"), reason=str(execution.reason)
    )


def _census(board: Board) -> str:
    counts = {status: board.statuses.count(status) for status in StepStatus}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)
