"""Metrics of runs and steps (reference: control-plane 2); updates are made after the commit."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final

from django.db.models import Count

from apps.agents.api import online_agents
from apps.executions.domain.states import ExecutionStatus
from apps.executions.models import Execution
from apps.executions.services.run_aggregate import MetricUpdate
from apps.observability.api import metrics
from kernel.clock import milliseconds

_KINDS: Final = ("local", "kubernetes", "remote-agent")
_GAUGES: Final = {
    "partita.executions.active": [str(ExecutionStatus.BOOTING), str(ExecutionStatus.CANCELING)],
    "partita.executions.queued": [str(ExecutionStatus.QUEUED)],
}
_ONLINE: Final = "partita.agents.online"


def run_finished(run: Execution) -> MetricUpdate:
    return partial(
        metrics.count,
        "partita.executions.finished",
        backend_kind=run.backend_kind,
        status=str(run.status),
        reason=str(run.reason),
    )


def step_finished(kind: str, status: str, reason: str) -> MetricUpdate:
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


def queue_waited(queued_at: datetime, claimed_at: datetime, kind: str) -> MetricUpdate:
    wait = milliseconds(claimed_at - queued_at)
    return partial(
        metrics.observe, "partita.step.queue_wait.ms", wait, kind=kind, status="running", reason=""
    )


def report_refused() -> None:
    metrics.count("partita.agent.stale_reports")


def leases_expired(count: int) -> None:
    metrics.count("partita.agent.leases_expired", count)


def set_gauges() -> None:
    """Set the gauges: active runs, queued runs, and workers that are online."""
    for name, statuses in _GAUGES.items():
        runs = Execution.objects.filter(status__in=statuses, deleted_at=None)
        counted = dict(runs.values_list("backend_kind").annotate(Count("pk")))
        for kind in _KINDS:
            metrics.set_gauge(name, counted.get(kind, 0), backend_kind=kind)
    workers = [agent for agent in online_agents() if agent.kind == "worker"]
    metrics.set_gauge(_ONLINE, len(workers))


def forget_gauges() -> None:
    """Remove the gauges from this process, because another process sets them now."""
    for name in (*_GAUGES, _ONLINE):
        metrics.forget(name)
