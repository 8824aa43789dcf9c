"""Artifacts as they go on the wire, their bytes, and the results of a run as JUnit XML."""

from __future__ import annotations

import codecs
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NotRequired, TypedDict

from apps.accounts.api import Principal
from apps.executions.domain import junit
from apps.executions.domain.junit import Case, Outcome, SuiteOfStep, TestSummaryBody
from apps.executions.domain.runs import ArtifactNotFound
from apps.executions.domain.states import StepStatus
from apps.executions.models import Artifact, Blob, Execution, Step
from apps.executions.selectors.definitions import BoundedCache
from apps.executions.selectors.runs import get_execution
from kernel import clock

INLINE_BYTES: Final = 64 * 2**10
_ARTIFACT_ID: Final = re.compile(r"^[a-z0-9-]{1,300}\Z")
_OUTCOMES: Final[dict[str, Outcome]] = {
    StepStatus.HEALTHY: "passed",
    StepStatus.FAILED: "failure",
}
_TESTING: Final = ("test", "task")  # kinds of steps
_MAX_CASES: Final = 100
_MAX_MESSAGE: Final = 2_000  # characters
_MAX_TRACE: Final = 16_000
_heads: Final[BoundedCache[str, str | None]] = BoundedCache(256)  # None: not a UTF-8 text

_wrong: Final[BoundedCache[tuple[str, str], list[Case]]] = BoundedCache(64)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCase:
    """A test of a report that failed, with its message and trace."""

    step_id: str
    step_name: str
    name: str
    classname: str
    message: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """An artifact and its bytes; `file_name` is the last part of its path."""

    file_name: str
    media_type: str
    sha256: str
    body: bytes


class ArtifactDocument(TypedDict):
    """An artifact of a run, as on the wire."""

    id: str
    stepId: str
    stepName: str
    path: str
    on: str
    format: str
    attempt: int
    size: int
    sha256: str
    mediaType: str
    href: str
    createdAt: str
    name: NotRequired[str]
    testSummary: NotRequired[TestSummaryBody]
    content: NotRequired[str]
    truncated: NotRequired[bool]


def artifacts_of(row: Execution) -> list[ArtifactDocument]:
    """Return every artifact of the run, oldest first; text with its first 64 KiB."""
    artifacts = list(row.artifacts.order_by("created_at", "artifact_id"))
    heads = _heads.get_many({artifact.sha256 for artifact in artifacts}, _read_heads)
    return [_wire(row.run_id, artifact, heads.get(artifact.sha256)) for artifact in artifacts]


def artifact_file(principal: Principal, run_id: str, artifact_id: str) -> StoredFile:
    """Return the file; raise ExecutionNotFound or ArtifactNotFound."""
    row = get_execution(principal, run_id)
    named = row.artifacts.filter(artifact_id=artifact_id)
    artifact = named.first() if _ARTIFACT_ID.match(artifact_id) else None
    if artifact is None:
        raise ArtifactNotFound
    return StoredFile(
        file_name=artifact.path.rstrip("/").rpartition("/")[2] or artifact.artifact_id,
        media_type=artifact.media_type,
        sha256=artifact.sha256,
        body=bytes(Blob.objects.values_list("data", flat=True).get(sha256=artifact.sha256)),
    )


def _wire(run_id: str, artifact: Artifact, head: str | None) -> ArtifactDocument:
    document: ArtifactDocument = {
        "id": artifact.artifact_id,
        "stepId": artifact.step_id,
        "stepName": artifact.step_name,
        "path": artifact.path,
        "on": artifact.on,
        "format": artifact.format,
        "attempt": artifact.attempt,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "mediaType": artifact.media_type,
        "href": f"/api/v1/executions/{run_id}/artifacts/{artifact.artifact_id}",
        "createdAt": clock.rfc3339(artifact.created_at),
    }
    if artifact.name:
        document["name"] = artifact.name
    if artifact.test_summary is not None:
        document["testSummary"] = artifact.test_summary
    if head is not None:
        document["content"] = head
        if artifact.size > INLINE_BYTES:
            document["truncated"] = True
    return document


def _read_heads(digests: set[str]) -> dict[str, str | None]:
    """Return SHA-256 → beginning of the text; hold one body at a time."""
    blobs = Blob.objects.filter(sha256__in=list(digests)).values_list("sha256", "data")
    return {digest: text_head(bytes(data)) for digest, data in blobs.iterator(chunk_size=1)}


def text_head(body: bytes) -> str | None:
    """Return the characters of the first 64 KiB, or None unless they are UTF-8 without NUL."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(body[:INLINE_BYTES], final=len(body) <= INLINE_BYTES)
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def failed_cases(principal: Principal, run_id: str) -> list[FailedCase]:
    """Return at most `_MAX_CASES` failed tests of the last attempts; raise ExecutionNotFound.

    Long messages and traces are cut.
    """
    row = get_execution(principal, run_id)
    steps = dict(Step.objects.filter(execution=row).values_list("step_id", "attempt"))
    failed: list[FailedCase] = []
    for report in row.artifacts.filter(format__in=junit.REPORT_FORMATS).order_by("created_at"):
        summary = report.test_summary or {}
        is_last = steps.get(report.step_id) == report.attempt
        if is_last and (summary.get("failures") or summary.get("errors")):
            failed += _failed_in(report)
    return failed[:_MAX_CASES]


def _failed_in(report: Artifact) -> list[FailedCase]:
    def read(_missing: set[tuple[str, str]]) -> dict[tuple[str, str], list[Case]]:
        body = Blob.objects.values_list("data", flat=True).get(sha256=report.sha256)
        cases = _cases_of(report.format, bytes(body))
        wrong = [each for each in cases if each.outcome in ("failure", "error")]
        return {key: wrong[:_MAX_CASES]}

    key = (report.sha256, report.format)
    return [
        FailedCase(
            step_id=report.step_id,
            step_name=report.step_name,
            name=case.name,
            classname=case.classname,
            message=case.message[:_MAX_MESSAGE],
            text=case.text[:_MAX_TRACE],
        )
        for case in _wrong.get_many({key}, read)[key]
    ]


def junit_document(principal: Principal, run_id: str) -> bytes:
    """Return one `testsuite` per step; raise ExecutionNotFound.

    It has the cases that the last attempt reported, or the step as its only case. Services and
    other steps that only serve tests have none: they are counted when they failed.
    """
    row = get_execution(principal, run_id)
    reported = _reported_cases(row)
    with_cases = {step_id for (step_id, _), cases in reported.items() if cases}
    suites = [
        _suite_of(step, reported.get((step.step_id, step.attempt), ()))
        for step in Step.objects.filter(execution=row).order_by("index")
        if step.kind in _TESTING or step.status == StepStatus.FAILED or step.step_id in with_cases
    ]
    return junit.as_junit(f"{row.suite_title} {row.run_id}", suites)


def _reported_cases(row: Execution) -> dict[tuple[str, int], list[Case]]:
    """Return (step id, attempt) → cases; hold the bytes of one report at a time."""
    reports = row.artifacts.filter(format__in=junit.REPORT_FORMATS).order_by("created_at", "path")
    by_content: dict[str, list[Artifact]] = defaultdict(list)
    for report in reports:
        by_content[report.sha256].append(report)
    cases: dict[tuple[str, int], list[Case]] = defaultdict(list)
    blobs = Blob.objects.filter(sha256__in=list(by_content)).values_list("sha256", "data")
    for digest, body in blobs.iterator(chunk_size=1):
        for report in by_content[digest]:
            cases[report.step_id, report.attempt] += _cases_of(report.format, bytes(body))
    return cases


def _cases_of(format_: str, body: bytes) -> tuple[Case, ...]:
    """Return no cases for an unreadable report: the run has an event about it."""
    try:
        return junit.read_cases(format_, body)
    except junit.ReportUnreadable:
        return ()


def _suite_of(step: Step, cases: Iterable[Case]) -> SuiteOfStep:
    return SuiteOfStep(
        name=step.step_id,
        cases=tuple(cases) or (_step_as_case(step),),
        started_at=clock.rfc3339(step.started_at) if step.started_at else "",
    )


def _step_as_case(step: Step) -> Case:
    outcome = _OUTCOMES.get(step.status, "skipped")
    span = step.finished_at - step.started_at if step.finished_at and step.started_at else None
    return Case(
        name=step.name,
        classname=step.step_id,
        outcome=outcome,
        seconds=None if span is None else max(0.0, span.total_seconds()),
        message=step.detail or step.reason or ("" if outcome == "passed" else step.status),
        kind=step.reason,
        text=step.detail,
    )
