"""The trace of a run: a span of the run, one below it for each attempt.

A run outlives any process, so its spans are promised before they exist: the run's own ids are
stored with it, those of an attempt follow from them. A span is handed over as a whole, after the
commit that ends what it stands for, by the process that commits it. The board is the one of the
unit of work that took effect: one that was repeated tells nothing.

(reference: control-plane 2)
"""

from __future__ import annotations

from functools import partial
from typing import Final

from apps.executions.domain.states import ExecutionStatus, StepStatus
from apps.executions.models import Execution
from apps.executions.services.board import Board
from kernel import telemetry
from kernel.trace_context import TraceContext, parse_traceparent

_FAILED: Final = str(StepStatus.FAILED)


def attempt_span(execution: Execution, step_id: str, attempt: int) -> TraceContext | None:
    """Where an attempt's own spans belong; None for a run that was stored without a trace."""
    run = parse_traceparent(execution.traceparent)
    return run.child(step_id, attempt) if run else None


def trace_attempt(board: Board, at: int, status: str, reason: str) -> None:
    """The attempt under way ends now. What waited and was never claimed was no attempt.

    It lasts from the claim; one that failed before any claim (nobody was there) from its queuing.
    """
    run = _traced(board.execution)
    since = board.known(at, "started_at")
    if since is None and status == _FAILED:
        since = board.known(at, "queued_at")
    if run is None or since is None:
        return
    node, attempt = board.run.plan.nodes[at], board.attempt(at)
    finished = telemetry.FinishedSpan(
        name=f"step {node.id}",
        context=run.child(node.id, attempt),
        parent_id=run.span_id,
        started_at=since,
        ended_at=board.now,
        attributes={
            "execution_id": board.execution.run_id,
            "step_id": node.id,
            "kind": node.kind,
            "attempt": attempt,
            "status": status,
            "reason": reason,
        },
        error=reason if status == _FAILED else "",
    )
    board.measure(partial(telemetry.record, finished))


def trace_run(board: Board) -> None:
    """The run is over, from its acceptance to now."""
    execution = board.execution
    span = _traced(execution)
    if span is None:
        return
    finished = telemetry.FinishedSpan(
        name="execution",
        context=span,
        parent_id=execution.parent_span_id,
        started_at=execution.started_at,
        ended_at=board.now,
        attributes={
            "execution_id": execution.run_id,
            "suite": execution.suite_id,
            "profile": execution.profile,
            "backend_kind": execution.backend_kind,
            "status": str(execution.status),
            "reason": str(execution.reason),
        },
        error=str(execution.reason) if execution.status == ExecutionStatus.FAILED else "",
    )
    board.measure(partial(telemetry.record, finished))


def _traced(execution: Execution) -> TraceContext | None:
    """The run's own span, where spans are exported at all."""
    return parse_traceparent(execution.traceparent) if telemetry.is_configured() else None
