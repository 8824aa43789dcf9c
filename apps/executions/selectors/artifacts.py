"""Artifacts as they go on the wire, their bytes, and the failed test cases of reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, NotRequired, TypedDict
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.api import Principal
from apps.executions.domain import junit
from apps.executions.domain.artifact_files import INLINE_BYTES, head_text, image_type
from apps.executions.domain.artifact_storage import ArtifactLost, StorageUnavailable
from apps.executions.domain.junit import Case, TestSummaryBody
from apps.executions.domain.runs import ArtifactExpired
from apps.executions.models import Artifact, Blob, Execution, Step
from apps.executions.selectors.artifact_bytes import heads_of, report_bytes
from apps.executions.selectors.definitions import BoundedCache
from apps.executions.selectors.runs import get_execution
from kernel import clock
from kernel.wire_types import Count, Instant, Ordinal, one_of

ARTIFACT_ID: Final = re.compile(r"^[a-z0-9-]{1,300}\Z")
_MAX_CASES: Final = 100
_MAX_MESSAGE: Final = 2_000  # characters
_MAX_TRACE: Final = 16_000


class _Head(NamedTuple):
    """What the first bytes of a file say; `text` is None unless it is UTF-8."""

    text: str | None
    image_type: str


_heads: Final[BoundedCache[str, _Head]] = BoundedCache(256)

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


class ArtifactDocument(TypedDict):
    """An artifact of a run, as on the wire."""

    id: str
    stepId: str
    stepName: str
    path: str
    on: Annotated[str, one_of(("success", "failure", "always"))]
    format: Annotated[str, one_of(("raw", "junit", "cobertura", "ctrf"))]
    attempt: Ordinal
    size: Count
    sha256: str
    mediaType: str
    href: str
    createdAt: Instant
    name: NotRequired[str]
    testSummary: NotRequired[TestSummaryBody]
    content: NotRequired[Annotated[str, "the first 64 KiB of a UTF-8 text"]]
    truncated: NotRequired[bool]
    imageType: NotRequired[Annotated[str, "of an image, by its bytes: PNG, JPEG, GIF or WebP"]]
    expiredAt: NotRequired[Annotated[Instant, "when its bytes were removed"]]


def artifacts_of(row: Execution) -> list[ArtifactDocument]:
    """Return every artifact of the run, oldest first; text with its first 64 KiB."""
    own = row.artifacts.filter(repeat=None)
    return artifact_documents(own, f"/api/v1/executions/{row.run_id}/artifacts")


def artifact_documents(rows: QuerySet[Artifact, Artifact], address: str) -> list[ArtifactDocument]:
    """Return the artifacts, oldest first, which are downloaded from below an address."""
    artifacts = list(rows.order_by("created_at", "artifact_id"))
    stored = {each.sha256: each.stored_object_id for each in artifacts if each.expired_at is None}
    heads = _heads.get_many(
        stored, lambda missing: _read_heads({digest: stored[digest] for digest in missing})
    )
    return [_wire(address, artifact, heads.get(artifact.sha256)) for artifact in artifacts]


def _wire(address: str, artifact: Artifact, head: _Head | None) -> ArtifactDocument:
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
        "href": f"{address}/{artifact.artifact_id}",
        "createdAt": clock.rfc3339(artifact.created_at),
    }
    if artifact.name:
        document["name"] = artifact.name
    if artifact.test_summary is not None:
        document["testSummary"] = artifact.test_summary
    if artifact.expired_at is not None:
        document["expiredAt"] = clock.rfc3339(artifact.expired_at)
        return document
    if head is not None and head.text is not None:
        document["content"] = head.text
        if artifact.size > INLINE_BYTES:
            document["truncated"] = True
    if head is not None and head.image_type:
        document["imageType"] = head.image_type
    return document


def _read_heads(places: Mapping[str, UUID | None]) -> dict[str, _Head]:
    """Return SHA-256 → what the first bytes say; hold one body at a time.

    `places` has the object of each digest, None for the store.
    """
    in_store = [digest for digest, place in places.items() if place is None]
    blobs = Blob.objects.filter(sha256__in=in_store).values_list("sha256", "data")
    heads = {digest: _head_of(bytes(data)) for digest, data in blobs.iterator(chunk_size=1)}
    elsewhere = {place: digest for digest, place in places.items() if place is not None}
    if elsewhere:
        found = heads_of(elsewhere)
        heads |= {elsewhere[pk]: _head_of(head, size) for pk, head, size in found}
    return heads


def _head_of(head: bytes, size: int | None = None) -> _Head:
    """Return what the first bytes of a file say; without `size`, they are all."""
    text = head_text(head, len(head) if size is None else size)
    return _Head(text=text, image_type=image_type(head))


def failed_cases(principal: Principal, run_id: str) -> list[FailedCase]:
    """Return at most `_MAX_CASES` failed tests of the last attempts; raise ExecutionNotFound.

    Long messages and traces are cut.
    """
    row = get_execution(principal, run_id)
    steps = dict(Step.objects.filter(execution=row).values_list("step_id", "attempt"))
    failed: list[FailedCase] = []
    reports = row.artifacts.filter(repeat=None, format__in=junit.REPORT_FORMATS)
    for report in reports.order_by("created_at"):
        summary = report.test_summary or {}
        is_last = steps.get(report.step_id) == report.attempt
        if is_last and (summary.get("failures") or summary.get("errors")):
            failed += failed_cases_in(report)
    return failed[:_MAX_CASES]


def failed_cases_in(report: Artifact) -> list[FailedCase]:
    """Return at most `_MAX_CASES` failed tests of a report; its bytes are read once."""
    if report.expired_at is not None:  # the same bytes may be known from another run
        return []

    def read(_missing: set[tuple[str, str]]) -> dict[tuple[str, str], list[Case]]:
        try:
            body = report_bytes(report)
        except (ArtifactExpired, ArtifactLost, StorageUnavailable):  # not kept: it may come again
            return {}
        cases = cases_of(report.format, body)
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
        for case in _wrong.get_many({key}, read).get(key, ())
    ]


def cases_of(format_: str, body: bytes) -> tuple[Case, ...]:
    """Return no cases for an unreadable report: the run has an event about it."""
    try:
        return junit.read_cases(format_, body)
    except junit.ReportUnreadable:
        return ()
