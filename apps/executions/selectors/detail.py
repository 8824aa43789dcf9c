"""One run in full: its Detail, its steps, and what surrounds the records of its streams.

(reference: control-plane 11.2, 12)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from datetime import datetime
from typing import Any, Final

from apps.accounts.api import Principal
from apps.executions.domain.events import events_topic, logs_topic
from apps.executions.domain.steps import StepEdges, waiting_on
from apps.executions.models import Execution, Step
from apps.executions.selectors.artifacts import artifacts_of
from apps.executions.selectors.runs import (
    all_runs,
    duration,
    find_run,
    get_execution,
    summary,
)
from apps.executions.selectors.snapshots import edges_of, suite_of
from apps.streams import api as streams
from kernel import clock

PARTS: Final = ("suite", "events", "steps", "artifacts")
_SUITE_TEXTS: Final = ("id", "title", "repository", "suiteStar")
_SUITE_LISTS: Final = ("profiles", "folders", "topology", "resolvedDependencies", "apiSurfaces")
_READS: Final = 4  # of a run that changes meanwhile
_NO_EDGES: Final = StepEdges(depends_on=(), on_failure=(), continue_on_failure=False)


def detail(principal: Principal, run_id: str, *, omit: Set[str] = frozenset()) -> dict[str, Any]:
    """Return the Detail without the parts in `omit`; raise ExecutionNotFound.

    Its parts are of one moment: a run that changes meanwhile is read again, up to four times.
    """
    return _of_one_moment(lambda: get_execution(principal, run_id), omit)


def run_detail(run_id: str, omit: Set[str] = frozenset()) -> dict[str, Any]:
    """Return the Detail of a run of any workspace, for commands; raise ExecutionNotFound."""
    return _of_one_moment(lambda: find_run(all_runs(), run_id), omit)


def _of_one_moment(read: Callable[[], Execution], omit: Set[str]) -> dict[str, Any]:
    row = read()
    document = _detail_of(row, omit)
    for _attempt in range(_READS):
        again = read()
        if again.version == row.version:
            break
        row, document = again, _detail_of(again, omit)
    return document


def _detail_of(row: Execution, omit: Set[str]) -> dict[str, Any]:
    now = clock.now()
    last_ids = streams.last_ids([events_topic(row.run_id), logs_topic(row.run_id)])
    document = summary(row, now=now) | _origin(row)
    if "suite" not in omit:
        document["suite"] = _suite(suite_of(row.snapshot_id))
    if "steps" not in omit:
        document["steps"] = steps_of(row, now=now)
    if "events" not in omit:
        document["events"] = events_of(row.run_id)
    if "artifacts" not in omit:
        document["artifacts"] = artifacts_of(row)
    document["lastEventId"] = last_ids.get(events_topic(row.run_id), 0)
    document["lastLogId"] = last_ids.get(logs_topic(row.run_id), 0)
    return document


def events_of(run_id: str) -> list[dict[str, Any]]:
    """Return every event of the run; the event at index n - 1 has stream id n."""
    chunks = streams.iterate(events_topic(run_id))
    return [json.loads(record) for chunk in chunks for record in chunk.records]


def _origin(row: Execution) -> dict[str, Any]:
    origin: dict[str, Any] = {
        "updatedAt": clock.rfc3339(row.updated_at),
        "author": row.author,
        "commit": row.commit,
        "branch": row.branch,
        "message": row.message,
    }
    if row.cancel_reason:
        origin["cancelReason"] = row.cancel_reason
    if row.keep_alive_until is not None:
        origin["keepAliveUntil"] = clock.rfc3339(row.keep_alive_until)
    return origin


def _suite(definition: Mapping[str, Any]) -> dict[str, Any]:
    suite: dict[str, Any] = {key: definition.get(key, "") for key in _SUITE_TEXTS}
    suite |= {key: definition.get(key, []) for key in _SUITE_LISTS}
    suite["sourceFiles"] = [
        {name: value for name, value in file.items() if name != "content"}
        for file in definition["sourceFiles"]
    ]
    return suite


def steps_of(row: Execution, *, now: datetime) -> list[dict[str, Any]]:
    """Return every step of the run as on the wire, in level order."""
    steps = list(Step.objects.filter(execution=row).order_by("index"))
    edges = edges_of([row.snapshot_id])[row.snapshot_id]
    statuses = {step.step_id: step.status for step in steps}
    return [
        _step_identity(step, edges.get(step.step_id, _NO_EDGES), statuses)
        | _step_outcome(step)
        | _step_times(step, now)
        | _step_usage(step)
        for step in steps
    ]


def _step_identity(step: Step, node: StepEdges, statuses: Mapping[str, str]) -> dict[str, Any]:
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


def _step_outcome(step: Step) -> dict[str, Any]:
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


def _step_times(step: Step, now: datetime) -> dict[str, Any]:
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


def _step_usage(step: Step) -> dict[str, Any]:
    figures = {
        "cpuPercent": step.cpu_percent,
        "memoryBytes": step.memory_bytes,
        "memoryPeakBytes": step.memory_peak_bytes,
    }
    known = {name: figure for name, figure in figures.items() if figure is not None}
    return {"usage": known} if known else {}


def event_envelope(topic: str) -> dict[str, Any] | None:
    """Return the present state of the run for a frame of events; None once it is deleted."""
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
