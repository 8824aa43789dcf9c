"""One run in full: its Detail, its steps, and what surrounds the records of its streams.

(reference: control-plane 11.2, 12)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from datetime import datetime
from typing import Annotated, Any, Final, NotRequired, TypedDict

from apps.accounts.api import Principal
from apps.executions.domain.attempts import AttemptBody
from apps.executions.domain.events import CauseLink, EventRecord, events_topic, logs_topic
from apps.executions.domain.kept_environments import KeepBody
from apps.executions.domain.runs import RunSummary
from apps.executions.domain.states import ExecutionStatus, StepReason, StepStatus
from apps.executions.domain.steps import ProbeBody, StepEdges, probe_of, wait_of, waiting_on
from apps.executions.domain.verdict import RunVerdict
from apps.executions.models import Execution, Step
from apps.executions.selectors.artifacts import ArtifactDocument, artifacts_of
from apps.executions.selectors.attempts import attempt_documents
from apps.executions.selectors.definitions import edges_of, suite_of
from apps.executions.selectors.kept_environments import keep_body
from apps.executions.selectors.queue_place import QueueBody, queue_body
from apps.executions.selectors.runs import (
    duration,
    find_run,
    get_execution,
    summary,
)
from apps.executions.selectors.verdicts import read_verdict
from apps.streams import api as streams
from kernel import clock
from kernel.wire_types import Count, Instant, one_of

PARTS: Final = ("suite", "events", "steps", "artifacts", "verdict", "attempts")
NO_PARTS: Final = frozenset(PARTS)  # what is omitted for the summary alone
STEPS_ONLY: Final = NO_PARTS - {"steps"}  # what is omitted for the steps
_READS: Final = 4  # of a run that changes meanwhile
_NO_EDGES: Final = StepEdges(depends_on=(), on_failure=(), continue_on_failure=False)


class UsageBody(TypedDict, total=False):
    cpuPercent: float
    memoryBytes: int
    memoryPeakBytes: int


class StepOutcome(TypedDict, total=False):
    reason: Annotated[str, one_of(StepReason)]
    detail: str
    cause: list[CauseLink]
    agentId: str
    exitCode: int
    usage: UsageBody
    missingArtifacts: Annotated[
        list[dict[str, str]],
        "declared artifacts that the last attempt did not leave: `path`, and `hint` "
        "if it is known where such a file is or why it was not taken",
    ]


class StepTimes(TypedDict):
    duration: Annotated[str, "MM:SS"]
    durationMs: NotRequired[Count]
    queuedAt: NotRequired[Instant]
    startedAt: NotRequired[Instant]
    finishedAt: NotRequired[Instant]
    probe: NotRequired[ProbeBody]
    waitsFor: NotRequired[
        Annotated[str, "what keeps its container from the start, in the words of the cluster"]
    ]


class StepDocument(StepOutcome, StepTimes):
    """A step of a run, as on the wire."""

    id: str
    name: str
    kind: str
    variant: str
    level: Count
    dependsOn: list[str]
    onFailure: list[str]
    continueOnFailure: bool
    status: Annotated[str, one_of(StepStatus)]
    attempt: Count
    waitingOn: list[str]


class RunSuiteBody(TypedDict):
    """The definition at the time of the launch; its parts are those of `GET /suites/{suiteId}`."""

    id: str
    title: str
    repository: str
    suiteStar: str
    profiles: list[Mapping[str, Any]]
    folders: list[Mapping[str, Any]]
    topology: list[Mapping[str, Any]]
    resolvedDependencies: list[Mapping[str, Any]]
    apiSurfaces: list[Mapping[str, Any]]
    sourceFiles: list[Mapping[str, Any]]


class RunParts(TypedDict, total=False):
    """What a Detail may lack; `suite` and `events` are as they were stored."""

    cancelReason: str
    keepAliveUntil: Instant
    keep: KeepBody
    queue: QueueBody
    verdict: RunVerdict
    suite: RunSuiteBody
    steps: list[StepDocument]
    events: list[Annotated[dict[str, object], EventRecord]]
    artifacts: list[ArtifactDocument]
    attempts: Annotated[
        list[AttemptBody],
        "the run and its reruns in order; an entry with `gap` has no run",
    ]


class RunDetail(RunSummary, RunParts):
    """The Detail of a run, as on the wire."""

    updatedAt: Instant
    commit: str
    branch: str
    message: str
    lastEventId: Count
    lastLogId: Count


class EventEnvelope(TypedDict):
    executionId: str
    executionStatus: str
    failing: bool
    duration: str
    updatedAt: str


def detail(principal: Principal, run_id: str, *, omit: Set[str] = frozenset()) -> RunDetail:
    """Return the Detail without the parts in `omit`; raise ExecutionNotFound.

    Its parts are of one moment: a run that changes meanwhile is read again, up to four times.
    """
    return _of_one_moment(lambda: get_execution(principal, run_id), omit, principal)


def run_detail(run_id: str, omit: Set[str] = frozenset()) -> RunDetail:
    """Return the Detail of a run of any workspace, for commands; raise ExecutionNotFound."""
    return _of_one_moment(lambda: find_run(Execution.objects.not_deleted(), run_id), omit)


def _of_one_moment(
    read: Callable[[], Execution], omit: Set[str], principal: Principal | None = None
) -> RunDetail:
    row = read()
    document = _detail_of(row, omit, principal)
    for _attempt in range(_READS):
        again = read()
        if again.version == row.version:
            break
        row, document = again, _detail_of(again, omit, principal)
    return document


def _detail_of(row: Execution, omit: Set[str], principal: Principal | None) -> RunDetail:
    now = clock.now()
    last_ids = streams.last_ids([events_topic(row.run_id), logs_topic(row.run_id)])
    brief = summary(row, now=now)
    return {
        **brief,
        "updatedAt": clock.rfc3339(row.updated_at),
        "commit": row.commit,
        "branch": row.branch,
        "message": row.message,
        **_parts_of(row, omit, now, brief["sentence"]),
        **_queue_part(row, principal),
        "lastEventId": last_ids.get(events_topic(row.run_id), 0),
        "lastLogId": last_ids.get(logs_topic(row.run_id), 0),
    }


def _parts_of(row: Execution, omit: Set[str], now: datetime, sentence: str) -> RunParts:
    parts: RunParts = {}
    if row.cancel_reason:
        parts["cancelReason"] = row.cancel_reason
    if row.keep_alive_until is not None:
        parts["keepAliveUntil"] = clock.rfc3339(row.keep_alive_until)
    if keep := keep_body(row):
        parts["keep"] = keep
    parts |= _parts_of_steps(row, omit, now, sentence)
    if "suite" not in omit:
        parts["suite"] = _suite(suite_of(row.snapshot_id))
    if "events" not in omit:
        parts["events"] = events_of(row.run_id)
    if "artifacts" not in omit:
        parts["artifacts"] = artifacts_of(row)
    if "attempts" not in omit:
        parts["attempts"] = attempt_documents(row)
    return parts


def _parts_of_steps(row: Execution, omit: Set[str], now: datetime, sentence: str) -> RunParts:
    parts: RunParts = {}
    steps = [] if {"steps", "verdict"} <= omit else _read_steps(row)
    if "verdict" not in omit:
        parts["verdict"] = read_verdict(row, steps)
        if row.status == ExecutionStatus.QUEUED:  # the verdict alone does not know its turn
            parts["verdict"]["sentence"] = sentence
    if "steps" not in omit:
        parts["steps"] = _step_documents(row, steps, now)
    return parts


def _queue_part(row: Execution, principal: Principal | None) -> RunParts:
    body = queue_body(row, principal)
    return {"queue": body} if body else {}


def events_of(run_id: str) -> list[dict[str, object]]:
    """Return every event of the run; the event at index n - 1 has stream id n."""
    chunks = streams.iterate(events_topic(run_id))
    return [json.loads(record) for chunk in chunks for record in chunk.records]


def _suite(definition: Mapping[str, Any]) -> RunSuiteBody:
    return {
        "id": definition.get("id", ""),
        "title": definition.get("title", ""),
        "repository": definition.get("repository", ""),
        "suiteStar": definition.get("suiteStar", ""),
        "profiles": definition.get("profiles", []),
        "folders": definition.get("folders", []),
        "topology": definition.get("topology", []),
        "resolvedDependencies": definition.get("resolvedDependencies", []),
        "apiSurfaces": definition.get("apiSurfaces", []),
        "sourceFiles": [
            {name: value for name, value in file.items() if name != "content"}
            for file in definition["sourceFiles"]
        ],
    }


def _read_steps(row: Execution) -> list[Step]:
    return list(Step.objects.filter(execution=row).order_by("index"))


def _step_documents(row: Execution, steps: list[Step], now: datetime) -> list[StepDocument]:
    """Return every step of the run as on the wire, in level order."""
    edges = edges_of([row.snapshot_id])[row.snapshot_id]
    statuses = {step.step_id: step.status for step in steps}
    return [
        _step_document(step, edges.get(step.step_id, _NO_EDGES), statuses, now) for step in steps
    ]


def _step_document(
    step: Step, node: StepEdges, statuses: Mapping[str, str], now: datetime
) -> StepDocument:
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
        **_step_outcome(step),
        **_step_times(step, now),
    }


def _step_outcome(step: Step) -> StepOutcome:
    outcome: StepOutcome = {}
    if step.reason:
        outcome["reason"] = step.reason
    if step.detail:
        outcome["detail"] = step.detail
    if step.cause:
        outcome["cause"] = step.cause
    if step.agent_id:
        outcome["agentId"] = step.agent_id
    if step.exit_code is not None:
        outcome["exitCode"] = step.exit_code
    if step.missing_artifacts:
        outcome["missingArtifacts"] = step.missing_artifacts
    if usage := _usage(step):
        outcome["usage"] = usage
    return outcome


def _usage(step: Step) -> UsageBody:
    usage: UsageBody = {}
    if step.cpu_percent is not None:
        usage["cpuPercent"] = step.cpu_percent
    if step.memory_bytes is not None:
        usage["memoryBytes"] = step.memory_bytes
    if step.memory_peak_bytes is not None:
        usage["memoryPeakBytes"] = step.memory_peak_bytes
    return usage


def _step_times(step: Step, now: datetime) -> StepTimes:
    times: StepTimes = {"duration": "00:00"}
    if step.queued_at is not None:
        times["queuedAt"] = clock.rfc3339(step.queued_at)
    if step.started_at is not None:
        took = max(step.finished_at or now, step.started_at) - step.started_at
        times["startedAt"] = clock.rfc3339(step.started_at)
        times["duration"] = clock.mmss(took)
        times["durationMs"] = clock.milliseconds(took)
    if step.finished_at is not None:
        times["finishedAt"] = clock.rfc3339(step.finished_at)
    if probe := probe_of(step.probe, status=step.status, attempt=step.attempt):
        times["probe"] = probe
    has_unit = step.unit_started_at is not None
    if waits_for := wait_of(step.waits_for, status=step.status, has_unit=has_unit):
        times["waitsFor"] = waits_for
    return times


def event_envelope(topic: str) -> EventEnvelope | None:
    """Return the present state of the run for a frame of events; None once it is deleted."""
    row = Execution.objects.not_deleted().filter(run_id=_run_id(topic)).first()
    if row is None:
        return None
    return {
        "executionId": row.run_id,
        "executionStatus": row.status,
        "failing": row.failing,
        "duration": clock.mmss(duration(row, clock.now())),
        "updatedAt": clock.rfc3339(row.updated_at),
    }


def log_envelope(topic: str) -> dict[str, str]:
    return {"executionId": _run_id(topic)}


def _run_id(topic: str) -> str:
    return topic.partition(":")[2]
