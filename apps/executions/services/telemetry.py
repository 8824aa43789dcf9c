"""Metrics and traces of runs and steps, recorded after the commit of what they describe.

A run has one span, and one below it for each attempt. A run outlives any process, so the ids of its
spans exist before the spans: those of the run are stored with it, and those of attempts derive from
them. The process that commits the end of a run or an attempt records the whole span; a repeated
unit of work records nothing.

(reference: control-plane 2)
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from apps.executions.domain.plan import PlanNode
from apps.executions.domain.states import ExecutionStatus, StepStatus
from apps.executions.models import Execution
from apps.observability.api import metrics
from kernel import telemetry
from kernel.clock import milliseconds
from kernel.trace_context import TraceContext, parse_traceparent

MetricUpdate = Callable[[], None]


def run_finished(run: Execution) -> MetricUpdate:
    return partial(
        metrics.count,
        "partita.executions.finished",
        backend_kind=run.backend_kind,
        status=str(run.status),
        reason=str(run.reason),
    )


def finished_step(kind: str, status: str, reason: str) -> MetricUpdate:
    return partial(metrics.count, "partita.steps.finished", kind=kind, status=status, reason=reason)


def step_duration(
    span: tuple[datetime, datetime], kind: str, status: str, reason: str
) -> MetricUpdate:
    took = milliseconds(span[1] - span[0])
    return partial(
        metrics.observe,
        "partita.step.duration.ms",
        took,
        kind=kind,
        status=status,
        reason=reason,
    )


def observe_queue_wait(queued_at: datetime, claimed_at: datetime, kind: str) -> MetricUpdate:
    wait = milliseconds(claimed_at - queued_at)
    return partial(
        metrics.observe, "partita.step.queue_wait.ms", wait, kind=kind, status="running", reason=""
    )


def attempt_span(execution: Execution, step_id: str, attempt: int) -> TraceContext | None:
    """Return the parent of the attempt's own spans; None for a run without a trace."""
    run_span = parse_traceparent(execution.traceparent)
    return run_span.child(step_id, attempt) if run_span else None


def attempt_trace(
    execution: Execution,
    node: PlanNode,
    attempt: int,
    times: tuple[datetime, datetime],
    status: str,
    reason: str,
) -> MetricUpdate | None:
    """Return what records the span of an attempt, from the first of these times to the second."""
    run_span = _span_of(execution)
    if run_span is None:
        return None
    finished = telemetry.FinishedSpan(
        name=f"step {node.id}",
        context=run_span.child(node.id, attempt),
        parent_id=run_span.span_id,
        started_at=times[0],
        ended_at=times[1],
        attributes={
            "execution_id": execution.run_id,
            "step_id": node.id,
            "kind": node.kind,
            "attempt": attempt,
            "status": status,
            "reason": reason,
        },
        error=reason if status == StepStatus.FAILED else "",
    )
    return partial(telemetry.record, finished)


def run_trace(execution: Execution, now: datetime) -> MetricUpdate | None:
    """Return what records the span of the run, from its acceptance to now."""
    span = _span_of(execution)
    if span is None:
        return None
    finished = telemetry.FinishedSpan(
        name="execution",
        context=span,
        parent_id=execution.parent_span_id,
        started_at=execution.started_at,
        ended_at=now,
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
    return partial(telemetry.record, finished)


def _span_of(execution: Execution) -> TraceContext | None:
    """Return the span of the run, or None if spans are not exported."""
    return parse_traceparent(execution.traceparent) if telemetry.is_configured() else None
