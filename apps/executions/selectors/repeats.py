"""Repeats of steps as they go on the wire, and their files (reference: control-plane 11.8)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, TypedDict

from django.db.models import QuerySet

from apps.accounts.api import Principal
from apps.executions.domain.repeats import (
    RepeatNotFound,
    RepeatState,
    repeat_sentence,
)
from apps.executions.models import StepRepeat
from apps.executions.selectors.artifact_files import StoredFile, stored_file
from apps.executions.selectors.artifacts import ArtifactDocument, artifact_documents
from apps.executions.selectors.kept_environments import kept_runs
from apps.executions.selectors.runs import get_execution
from kernel import clock
from kernel.agent_protocol import Job

_REPEAT_ID: Final = re.compile(r"^repeat-[0-9a-f]{12}\Z")
NEWEST_REPEATS_FIRST: Final = ("-created_at", "-id")


class RepeatFiles(TypedDict):
    """The files that replace those of the step, packed as tar.gz."""

    sha256: str
    size: int


class _RepeatTimes(TypedDict, total=False):
    startedAt: str
    finishedAt: str
    durationMs: int


class _RepeatOutcome(TypedDict, total=False):
    command: str
    files: RepeatFiles
    reason: str
    detail: str
    exitCode: int
    artifacts: list[ArtifactDocument]


class RepeatDocument(_RepeatOutcome, _RepeatTimes):
    """A step that runs once more, as on the wire; of `env` there are only the names."""

    id: str
    executionId: str
    stepId: str
    kind: str
    attempt: int
    state: str
    sentence: str
    canceling: bool
    env: list[str]
    askedBy: str
    createdAt: str
    href: str
    logs: str


class RepeatEnvelope(TypedDict):
    """What a frame of the log of a repeat has beside the line."""

    executionId: str
    repeatId: str


def list_repeats(principal: Principal, run_id: str) -> QuerySet[StepRepeat, StepRepeat]:
    """Return the repeats of a run; raise ExecutionNotFound."""
    row = get_execution(principal, run_id)
    return StepRepeat.objects.filter(execution=row)


def repeat_documents(rows: Iterable[StepRepeat], run_id: str) -> list[RepeatDocument]:
    return [repeat_document(row, run_id) for row in rows]


def get_repeat(principal: Principal, run_id: str, repeat_id: str) -> StepRepeat:
    """Return the row with its run; raise ExecutionNotFound, RepeatNotFound."""
    rows = list_repeats(principal, run_id)
    named = rows.select_related("execution").filter(repeat_id=repeat_id)
    row = named.first() if _REPEAT_ID.match(repeat_id) else None
    if row is None:
        raise RepeatNotFound
    return row


def repeat_detail(row: StepRepeat, run_id: str) -> RepeatDocument:
    """Return a repeat with its artifacts."""
    document = repeat_document(row, run_id)
    artifacts = artifact_documents(row.artifacts.all(), f"{document['href']}/artifacts")
    return {**document, "artifacts": artifacts}


def repeat_file(principal: Principal, run_id: str, repeat_id: str, artifact_id: str) -> StoredFile:
    """Return a file; raise ExecutionNotFound, RepeatNotFound or ArtifactNotFound."""
    row = get_repeat(principal, run_id, repeat_id)
    return stored_file(row.artifacts.all(), artifact_id)


def repeat_document(row: StepRepeat, run_id: str) -> RepeatDocument:
    href = f"/api/v1/executions/{run_id}/repeats/{row.repeat_id}"
    return {
        "id": row.repeat_id,
        "executionId": run_id,
        "stepId": row.step_id,
        "kind": row.kind,
        "attempt": row.attempt,
        "state": row.state,
        "sentence": sentence_of(row),
        "canceling": row.is_canceling and row.finished_at is None,
        "env": sorted(row.env),
        "askedBy": row.asked_by,
        "createdAt": clock.rfc3339(row.created_at),
        "href": href,
        "logs": f"{href}/logs",
        **_outcome(row),
        **_times(row),
    }


def _outcome(row: StepRepeat) -> _RepeatOutcome:
    outcome: _RepeatOutcome = {}
    if row.command:
        outcome["command"] = row.command
    if row.content_sha256:
        outcome["files"] = {"sha256": row.content_sha256, "size": row.content_size}
    if row.reason:
        outcome["reason"] = row.reason
    if row.detail:
        outcome["detail"] = row.detail
    if row.exit_code is not None:
        outcome["exitCode"] = row.exit_code
    return outcome


def _times(row: StepRepeat) -> _RepeatTimes:
    times: _RepeatTimes = {}
    if row.started_at is not None:
        times["startedAt"] = clock.rfc3339(row.started_at)
    if row.finished_at is not None:
        times["finishedAt"] = clock.rfc3339(row.finished_at)
    if (took := took_ms(row)) is not None:
        times["durationMs"] = took
    return times


def sentence_of(row: StepRepeat) -> str:
    """Return what became of a repeat, in one sentence."""
    return repeat_sentence(
        row.attempt,
        RepeatState(row.state),
        detail=row.detail,
        took_ms=took_ms(row),
        is_service=row.kind == "service",
    )


def took_ms(row: StepRepeat) -> int | None:
    """Return how long it ran, None before its end, or if it never began."""
    if row.started_at is None or row.finished_at is None:
        return None
    return clock.milliseconds(max(row.finished_at, row.started_at) - row.started_at)


def jobs_of_kept_repeats(jobs: Collection[Job]) -> frozenset[Job]:
    """Return the jobs that are repeats in kept environments: their units stay."""
    rows = StepRepeat.objects.filter(
        job_id__in=[job.job_id for job in jobs], execution__in=kept_runs()
    )
    repeated = {
        Job(job_id=job_id, attempt=attempt)
        for job_id, attempt in rows.values_list("job_id", "attempt")
    }
    return frozenset(repeated & set(jobs))


def repeat_envelope(topic: str) -> RepeatEnvelope | None:
    """Return what surrounds a line of a repeat's log; None once it is deleted."""
    repeat_id = topic.partition(":")[2]
    row = StepRepeat.objects.filter(repeat_id=repeat_id).values_list("execution__run_id")
    found = row.first()
    return None if found is None else {"executionId": found[0], "repeatId": repeat_id}
