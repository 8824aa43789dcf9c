"""Files: what steps export, and the source files that steps get."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from apps.executions.domain.junit import REPORT_FORMATS, ReportUnreadable, read_summary
from apps.executions.domain.reports import (
    ArtifactUpload,
    ContentNotFound,
    JobNotFound,
    Supervisor,
)
from apps.executions.models import Artifact, Blob, Step
from apps.executions.selectors.plans import places_of_jobs, run_plan
from apps.executions.services.board import Board, open_board, write_boards
from apps.executions.services.exchange import refuse_stale
from apps.executions.services.specs import source_suite
from apps.streams.api import unit_of_work
from kernel.errors import PlatformError
from kernel.ids import slug

MAX_ARTIFACT_BYTES: Final = 10 * 2**20


@dataclass(frozen=True, slots=True)
class _Report:
    summary: dict[str, Any] | None = None
    problem: str = ""


class ArtifactTooLarge(PlatformError):
    code = "payload_too_large"


def source_content(supervisor: Supervisor, job_id: str, attempt: int) -> bytes:
    """The files of the step's suite, tar.gz. Raises JobNotFound, StaleAttempt, ContentNotFound."""
    step = Step.objects.select_related("execution").filter(job_id=job_id).first()
    if step is None:
        raise JobNotFound
    refuse_stale(step, supervisor, attempt)
    run = run_plan(step.execution.snapshot_id)
    content = run.contents.get(source_suite(run, step.index - 1))
    if content is None:
        raise ContentNotFound
    sha256 = content["digest"].removeprefix("sha256:")
    return bytes(Blob.objects.values_list("data", flat=True).get(sha256=sha256))


def store_artifact(
    supervisor: Supervisor, job_id: str, attempt: int, upload: ArtifactUpload
) -> tuple[str, bool]:
    """Keep one exported file; returns (artifact id, whether it is new).

    The same path and bytes again: the first one's id. A test report that cannot be read is kept,
    with an event that says so.

    Raises JobNotFound, StaleAttempt, ArtifactTooLarge.
    """
    if len(upload.body) > MAX_ARTIFACT_BYTES:
        raise ArtifactTooLarge(f"an artifact has at most {MAX_ARTIFACT_BYTES} bytes")
    report = _read_report(upload)  # may take a while: not within the transaction
    return _store(supervisor, (job_id, attempt), upload, report)


@unit_of_work
def _store(
    supervisor: Supervisor, job: tuple[str, int], upload: ArtifactUpload, report: _Report
) -> tuple[str, bool]:
    board, at = _held_step(supervisor, *job)
    sha256 = hashlib.sha256(upload.body).hexdigest()
    stored = Artifact.objects.filter(execution_id=board.execution.pk, step_id=board.row(at).step_id)
    same = stored.filter(attempt=job[1], path=upload.path, sha256=sha256).first()
    if same is not None:
        return same.artifact_id, False
    store_blob(sha256, upload.body)
    artifact = _artifact(board, at, upload, sha256)
    artifact.test_summary = report.summary
    artifact.save(force_insert=True)
    if report.problem:
        board.say(at, "artifacts", f"{upload.path}: {report.problem}", level="warn")
    write_boards([board])
    return artifact.artifact_id, True


def store_blob(sha256: str, body: bytes) -> None:
    """Equal bytes share a row, whoever came first."""
    Blob.objects.get_or_create(sha256=sha256, defaults={"size": len(body), "data": body})


def _held_step(supervisor: Supervisor, job_id: str, attempt: int) -> tuple[Board, int]:
    execution_pk, at = places_of_jobs([job_id]).get(job_id, (None, 0))
    board = open_board(execution_pk) if execution_pk else None
    if board is None:
        raise JobNotFound
    refuse_stale(board.row(at), supervisor, attempt)
    return board, at


def _artifact(board: Board, at: int, upload: ArtifactUpload, sha256: str) -> Artifact:
    node = board.run.nodes[at]
    file_name = upload.path.rsplit("/", 1)[-1]
    return Artifact(
        execution_id=board.execution.pk,
        artifact_id=_free_id(board, f"{node['id']}-{upload.name or file_name}-{upload.format}"),
        step_id=node["id"],
        step_name=node["name"],
        attempt=board.attempt(at),
        path=upload.path,
        name=upload.name,
        on=upload.on,
        format=upload.format,
        media_type=upload.media_type,
        size=len(upload.body),
        sha256=sha256,
        created_at=board.now,
    )


def _free_id(board: Board, wanted: str) -> str:
    base = slug(wanted)[:280]
    taken = set(
        Artifact.objects.filter(
            execution_id=board.execution.pk, artifact_id__startswith=base
        ).values_list("artifact_id", flat=True)
    )
    number = 1
    while (candidate := base if number == 1 else f"{base}-{number}") in taken:
        number += 1
    return candidate


def _read_report(upload: ArtifactUpload) -> _Report:
    if upload.format not in REPORT_FORMATS:
        return _Report()
    try:
        return _Report(read_summary(upload.format, upload.body))
    except ReportUnreadable as error:
        return _Report(problem=f"no readable {upload.format} report: {error}")
