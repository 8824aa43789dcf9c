"""What runs and steps count in the metrics (reference: control-plane 2), told after the commit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

from django.db.models import Count

from apps.agents.api import online_agents
from apps.executions.domain.states import ExecutionStatus
from apps.executions.models import Execution
from apps.system.api import metrics
from kernel.clock import milliseconds

Measure = Callable[[], None]
_KINDS: Final = ("local", "kubernetes", "remote-agent")
_LEVELS: Final = {
    "partita.executions.active": [str(ExecutionStatus.BOOTING), str(ExecutionStatus.CANCELING)],
    "partita.executions.queued": [str(ExecutionStatus.QUEUED)],
}
_ONLINE: Final = "partita.agents.online"


def run_finished(run: Execution) -> Measure:
    return partial(
        metrics.count,
        "partita.executions.finished",
        backend_kind=run.backend_kind,
        status=str(run.status),
        reason=str(run.reason),
    )


def step_finished(kind: str, status: str, reason: str) -> Measure:
    return partial(metrics.count, "partita.steps.finished", kind=kind, status=status, reason=reason)


def step_took(span: tuple[datetime, datetime], kind: str, status: str, reason: str) -> Measure:
    took = milliseconds(span[1] - span[0])
    return partial(
        metrics.observe,
        "partita.step.duration.ms",
        took,
        kind=kind,
        status=status,
        reason=reason,
    )


def waited(queued_at: datetime, claimed_at: datetime, kind: str) -> Measure:
    wait = milliseconds(claimed_at - queued_at)
    return partial(
        metrics.observe, "partita.step.queue_wait.ms", wait, kind=kind, status="running", reason=""
    )


def lines_stored(count: int) -> Measure:
    return partial(metrics.count, "partita.log.lines", count, stream="logs")


def report_refused() -> None:
    metrics.count("partita.agent.stale_reports")


def leases_expired(count: int) -> None:
    metrics.count("partita.agent.leases_expired", count)


def gauge() -> None:
    """Set what stands at a level: runs that are active or queued, workers that are online."""
    for name, statuses in _LEVELS.items():
        runs = Execution.objects.filter(status__in=statuses, deleted_at=None)
        counted = dict(runs.values_list("backend_kind").annotate(Count("pk")))
        for kind in _KINDS:
            metrics.set_gauge(name, counted.get(kind, 0), backend_kind=kind)
    workers = [agent for agent in online_agents() if agent.kind == "worker"]
    metrics.set_gauge(_ONLINE, len(workers))


def ungauge() -> None:
    """Another process sets the levels now: what this one knows grows old."""
    for name in (*_LEVELS, _ONLINE):
        metrics.forget(name)
