"""Steps as they go on the wire (reference: control-plane 11.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from apps.executions.domain.step_shape import NodeShape, waiting_on
from apps.executions.models import Execution, Step
from apps.executions.selectors.snapshots import shapes_of
from kernel import clock

_NO_EDGES: Final = NodeShape(depends_on=(), on_failure=(), continue_on_failure=False)


def steps_of(row: Execution, *, now: datetime) -> list[dict[str, Any]]:
    """Every step of the run, in level order."""
    steps = list(Step.objects.filter(execution=row).order_by("index"))
    shapes = shapes_of([row.snapshot_id])[row.snapshot_id]
    return wire_steps(steps, shapes, now=now)


def wire_steps(
    steps: Sequence[Step], shapes: Mapping[str, NodeShape], *, now: datetime
) -> list[dict[str, Any]]:
    statuses = {step.step_id: step.status for step in steps}
    return [
        _identity(step, shapes.get(step.step_id, _NO_EDGES), statuses)
        | _outcome(step)
        | _times(step, now)
        | _usage(step)
        for step in steps
    ]


def is_job(job_id: str) -> bool:
    """Return whether a step has, or had, this job."""
    return Step.objects.filter(job_id=job_id).exists()


def _identity(step: Step, node: NodeShape, statuses: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": step.step_id,
        "name": step.name,
        "kind": step.kind,
        "variant": step.variant,
        "level": step.level,
        "dependsOn": list(node.depends_on),
        "onFailure": list(node.on_failure),
        "continueOnFailure": node.continue_on_failure,
        "status": step.status,
        "attempt": step.attempt,
        "waitingOn": waiting_on(node, step.status, statuses),
    }


def _outcome(step: Step) -> dict[str, Any]:
    optional = {
        "reason": step.reason,
        "detail": step.detail,
        "cause": step.cause,
        "agentId": step.agent_id,
    }
    present: dict[str, Any] = {name: value for name, value in optional.items() if value}
    if step.exit_code is not None:
        present["exitCode"] = step.exit_code
    return present


def _times(step: Step, now: datetime) -> dict[str, Any]:
    instants = {
        "queuedAt": step.queued_at,
        "startedAt": step.started_at,
        "finishedAt": step.finished_at,
    }
    present: dict[str, Any] = {
        name: clock.rfc3339(instant) for name, instant in instants.items() if instant is not None
    }
    if step.started_at is None:
        return present | {"duration": "00:00"}
    span = max(step.finished_at or now, step.started_at) - step.started_at
    return present | {"duration": clock.mmss(span), "durationMs": clock.milliseconds(span)}


def _usage(step: Step) -> dict[str, Any]:
    figures = {
        "cpuPercent": step.cpu_percent,
        "memoryBytes": step.memory_bytes,
        "memoryPeakBytes": step.memory_peak_bytes,
    }
    known = {name: figure for name, figure in figures.items() if figure is not None}
    return {"usage": known} if known else {}
