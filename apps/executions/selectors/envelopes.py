"""What stands around the records of a run's streams (reference: control-plane 12)."""

from __future__ import annotations

from typing import Any

from apps.executions.selectors.scope import all_runs
from apps.executions.selectors.summaries import duration
from kernel import clock


def event_envelope(topic: str) -> dict[str, Any] | None:
    """The run as it is now, beside its events; None once it is deleted."""
    row = all_runs().filter(run_id=_run_id(topic)).first()
    if row is None:
        return None
    return {
        "executionId": row.run_id,
        "executionStatus": row.status,
        "failing": row.failing,
        "duration": duration(row, clock.now())["duration"],
        "updatedAt": clock.rfc3339(row.updated_at),
    }


def log_envelope(topic: str) -> dict[str, Any]:
    return {"executionId": _run_id(topic)}


def _run_id(topic: str) -> str:
    return topic.partition(":")[2]
