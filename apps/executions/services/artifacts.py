"""Files: artifacts that steps export, and the source files that steps get."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from apps.executions.domain.agent_reports import (
    ArtifactUpload,
    ContentNotFound,
    JobNotFound,
    SupervisorSession,
)
from apps.executions.domain.junit import REPORT_FORMATS, ReportUnreadable, read_summary
from apps.executions.models import Artifact, Blob, Step
from apps.executions.selectors.jobs import indexes_of_jobs
from apps.executions.selectors.snapshots import run_definition
from apps.executions.services.agent_reports import refuse_stale
from apps.executions.services.claims import source_suite
from apps.executions.services.run_aggregate import RunAggregate, load_run, save_runs
from apps.streams.api import unit_of_work
from kernel.errors import PlatformError
from kernel.ids import slug

MAX_ARTIFACT_BYTES: Final = 10 * 2**20


@dataclass(frozen=True, slots=True)
class _TestReport:
    summary: dict[str, Any] | None = None
    problem: str = ""


class ArtifactTooLarge(PlatformError):
    code = "payload_too_large"


def source_content(supervisor: SupervisorSession, job_id: str, attempt: int) -> bytes:
    """Return the files of the suite as tar.gz; raise JobNotFound, StaleAttempt, ContentNotFound."""
    step = Step.objects.select_related("execution").filter(job_id=job_id).first()
    if step is None:
        raise JobNotFound
    refuse_stale(step, supervisor, attempt)
    definition = run_definition(step.execution.snapshot_id)
    content = definition.contents.get(source_suite(definition, step.index - 1))
    if content is None:
        raise ContentNotFound
    sha256 = content["digest"].removeprefix("sha256:")
    return bytes(Blob.objects.values_list("data", flat=True).get(sha256=sha256))


def store_artifact(
    supervisor: SupervisorSession, job_id: str, attempt: int, upload: ArtifactUpload
) -> tuple[str, bool]:
    """Store an exported file; return (artifact id, whether it is new).

    The same path and bytes get the id of the first one. An unreadable test report is stored with
    an event about it. Raise JobNotFound, StaleAttempt or ArtifactTooLarge.
    """
    if len(upload.body) > MAX_ARTIFACT_BYTES:
        raise ArtifactTooLarge(f"an artifact has at most {MAX_ARTIFACT_BYTES} bytes")
    report = _read_report(upload)  # may take a while: not within the transaction
    return _store(supervisor, (job_id, attempt), upload, report)


@unit_of_work
def _store(
    supervisor: SupervisorSession, job: tuple[str, int], upload: ArtifactUpload, report: _TestReport
) -> tuple[str, bool]:
    run, index = _held_step(supervisor, *job)
    sha256 = hashlib.sha256(upload.body).hexdigest()
    stored = Artifact.objects.filter(execution_id=run.execution.pk, step_id=run.step(index).step_id)
    same = stored.filter(attempt=job[1], path=upload.path, sha256=sha256).first()
    if same is not None:
        return same.artifact_id, False
    store_blob(sha256, upload.body)
    artifact = _artifact(run, index, upload, sha256)
    artifact.test_summary = report.summary
    artifact.save(force_insert=True)
    if report.problem:
        run.emit_step_event(index, "artifacts", f"{upload.path}: {report.problem}", level="warn")
    save_runs([run])
    return artifact.artifact_id, True


def store_blob(sha256: str, body: bytes) -> None:
    """Store bytes under their digest, or keep the row of equal bytes."""
    Blob.objects.get_or_create(sha256=sha256, defaults={"size": len(body), "data": body})


def _held_step(
    supervisor: SupervisorSession, job_id: str, attempt: int
) -> tuple[RunAggregate, int]:
    execution_pk, index = indexes_of_jobs([job_id]).get(job_id, (None, 0))
    run = load_run(execution_pk) if execution_pk else None
    if run is None:
        raise JobNotFound
    refuse_stale(run.step(index), supervisor, attempt)
    return run, index


def _artifact(run: RunAggregate, index: int, upload: ArtifactUpload, sha256: str) -> Artifact:
    node = run.definition.nodes[index]
    file_name = upload.path.rsplit("/", 1)[-1]
    return Artifact(
        execution_id=run.execution.pk,
        artifact_id=_free_id(run, f"{node['id']}-{upload.name or file_name}-{upload.format}"),
        step_id=node["id"],
        step_name=node["name"],
        attempt=run.attempt(index),
        path=upload.path,
        name=upload.name,
        on=upload.on,
        format=upload.format,
        media_type=upload.media_type,
        size=len(upload.body),
        sha256=sha256,
        created_at=run.now,
    )


def _free_id(run: RunAggregate, wanted: str) -> str:
    base = slug(wanted)[:280]
    taken = set(
        Artifact.objects.filter(
            execution_id=run.execution.pk, artifact_id__startswith=base
        ).values_list("artifact_id", flat=True)
    )
    number = 1
    while (candidate := base if number == 1 else f"{base}-{number}") in taken:
        number += 1
    return candidate


def _read_report(upload: ArtifactUpload) -> _TestReport:
    if upload.format not in REPORT_FORMATS:
        return _TestReport()
    try:
        return _TestReport(read_summary(upload.format, upload.body))
    except ReportUnreadable as error:
        return _TestReport(problem=f"no readable {upload.format} report: {error}")
