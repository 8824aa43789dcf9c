"""Runs as list entries: their Summaries (reference: control-plane 11.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Max

from apps.executions.domain.queue_order import Waiting, admission_order
from apps.executions.domain.states import ExecutionStatus
from apps.executions.models import Execution
from kernel import clock


def summary(row: Execution, *, now: datetime | None = None) -> dict[str, Any]:
    """The Summary of one run; see `summaries`."""
    return summaries([row], now=now)[0]


def summaries(rows: Sequence[Execution], *, now: datetime | None = None) -> list[dict[str, Any]]:
    """Wire Summaries in the order of `rows`.

    One or two queries more when a row is queued (its position is counted over all workspaces),
    none otherwise.
    """
    instant = now or clock.now()
    queued = any(row.status == ExecutionStatus.QUEUED for row in rows)
    positions = queue_positions() if queued else {}
    return [
        _identity(row) | _standing(row, positions) | duration(row, instant) | _times(row)
        for row in rows
    ]


def queue_positions() -> dict[str, int]:
    """Run id → 1-based place in the queue, over all workspaces."""
    queued = Execution.objects.filter(status=ExecutionStatus.QUEUED, deleted_at=None)
    waiting = [
        Waiting(run_id=run_id, workspace_id=workspace_id, accepted_at=accepted_at)
        for run_id, workspace_id, accepted_at in queued.values_list(
            "run_id", "workspace_id", "started_at"
        )
    ]
    order = admission_order(waiting, last_boot=last_boots({run.workspace_id for run in waiting}))
    return {run_id: place for place, run_id in enumerate(order, start=1)}


def last_boots(workspace_ids: Iterable[Any]) -> dict[Any, datetime]:
    """Workspace → when a run of it was last admitted; those that never ran are absent."""
    booted = Execution.objects.filter(workspace_id__in=list(workspace_ids), booted_at__isnull=False)
    rows: Iterable[tuple[UUID, datetime]] = booted.values_list("workspace_id").annotate(
        last=Max("booted_at")
    )
    return dict(rows)


def duration(row: Execution, now: datetime) -> dict[str, Any]:
    """`duration` and `durationMs`: from acceptance to the end, or to now."""
    span = max(row.finished_at or now, row.started_at) - row.started_at
    return {"duration": clock.mmss(span), "durationMs": clock.milliseconds(span)}


def _identity(row: Execution) -> dict[str, Any]:
    identity = {
        "id": row.run_id,
        "suiteId": row.suite_id,
        "suiteTitle": row.suite_title,
        "profile": row.profile,
        "backendId": row.backend_id,
        "backend": row.backend_label,
        "backendKind": row.backend_kind,
        "trigger": row.trigger,
        "workspaceId": str(row.workspace_id),
    }
    return identity | ({"rerunOf": row.rerun_of} if row.rerun_of else {})


def _standing(row: Execution, positions: Mapping[str, int]) -> dict[str, Any]:
    optional = {
        "reason": row.reason,
        "reasonDetail": row.reason_detail,
        "queuePosition": positions.get(row.run_id),
    }
    present = {name: value for name, value in optional.items() if value}
    return {"status": row.status, "failing": row.failing, **present}


def _times(row: Execution) -> dict[str, Any]:
    instants = {
        "startedAt": row.started_at,
        "bootedAt": row.booted_at,
        "finishedAt": row.finished_at,
    }
    return {name: clock.rfc3339(instant) for name, instant in instants.items() if instant}
