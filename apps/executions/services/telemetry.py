"""Metrics and traces of runs and steps, recorded after the commit of what they describe.

A run has one span, and one below it for each attempt. A run outlives any process, so the ids of its
spans exist before the spans: those of the run are stored with it, and those of attempts derive from
them. The process that commits the end of a run or an attempt records the whole span; a repeated
unit of work records nothing.

(reference: control-plane 2)
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final

from apps.executions.domain.states import ExecutionStatus, StepStatus
from apps.executions.models import Execution
from apps.executions.services.run_aggregate import MetricUpdate, RunAggregate
from apps.observability.api import metrics
from kernel import telemetry
from kernel.clock import milliseconds
from kernel.trace_context import TraceContext, parse_traceparent

_FAILED: Final = str(StepStatus.FAILED)


def run_finished(run: Execution) -> MetricUpdate:
    return partial(
        metrics.count,
        "partita.executions.finished",
        backend_kind=run.backend_kind,
        status=str(run.status),
        reason=str(run.reason),
    )


def count_finished_step(kind: str, status: str, reason: str) -> MetricUpdate:
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


def trace_attempt(run: RunAggregate, index: int, status: str, reason: str) -> None:
    """Record the span of the attempt that ends now, from its claim.

    A step that failed without a claim has a span from the time it was queued; one that ended
    otherwise without a claim has none.
    """
    run_span = _span_of(run.execution)
    since = run.known_value(index, "started_at")
    if since is None and status == _FAILED:
        since = run.known_value(index, "queued_at")
    if run_span is None or since is None:
        return
    node, attempt = run.plan.nodes[index], run.attempt(index)
    finished = telemetry.FinishedSpan(
        name=f"step {node.id}",
        context=run_span.child(node.id, attempt),
        parent_id=run_span.span_id,
        started_at=since,
        ended_at=run.now,
        attributes={
            "execution_id": run.execution.run_id,
            "step_id": node.id,
            "kind": node.kind,
            "attempt": attempt,
            "status": status,
            "reason": reason,
        },
        error=reason if status == _FAILED else "",
    )
    run.record_metric(partial(telemetry.record, finished))


def trace_run(run: RunAggregate) -> None:
    """Record the span of the run, from its acceptance to now."""
    execution = run.execution
    span = _span_of(execution)
    if span is None:
        return
    finished = telemetry.FinishedSpan(
        name="execution",
        context=span,
        parent_id=execution.parent_span_id,
        started_at=execution.started_at,
        ended_at=run.now,
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
    run.record_metric(partial(telemetry.record, finished))


def _span_of(execution: Execution) -> TraceContext | None:
    """Return the span of the run, or None if spans are not exported."""
    return parse_traceparent(execution.traceparent) if telemetry.is_configured() else None
