"""Files that steps export: their bytes, their rows, and what test reports count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apps.executions import conf
from apps.executions.domain.agent_reports import JobNotFound, SupervisorSession
from apps.executions.domain.junit import (
    REPORT_FORMATS,
    ReportUnreadable,
    TestSummaryBody,
    read_summary,
)
from apps.executions.models import Artifact, Step
from apps.executions.selectors.definitions import indexes_of_jobs
from apps.executions.services.agent_reports import refuse_stale
from apps.executions.services.artifact_objects import (
    PlacedBytes,
    bytes_for_store,
    discard_bytes,
    keep_bytes,
    place_bytes,
)
from apps.executions.services.run_aggregate import load_run, save_runs
from apps.executions.services.stored_files import new_artifact
from apps.streams.api import unit_of_work
from kernel.agent_protocol import ArtifactUpload, Job
from kernel.errors import PlatformError

MAX_ARTIFACT_BYTES: Final = 10 * 2**20


@dataclass(frozen=True, slots=True)
class TestReport:
    """What a test report counts, or why it cannot be read."""

    summary: TestSummaryBody | None = None
    problem: str = ""


class ArtifactTooLarge(PlatformError):
    code = "payload_too_large"


def store_artifact(
    supervisor: SupervisorSession, job: Job, upload: ArtifactUpload
) -> tuple[str, bool]:
    """Store an exported file; return (artifact id, whether it is new).

    The same path and bytes get the id of the first one. An unreadable test report is stored with
    an event about it. Raise JobNotFound, StaleAttempt or ArtifactTooLarge.
    """
    if len(upload.body) > MAX_ARTIFACT_BYTES:
        raise ArtifactTooLarge(f"an artifact has at most {MAX_ARTIFACT_BYTES} bytes")
    report = read_report(upload)  # may take a while: not within the transaction
    placed = _place_upload(supervisor, job, upload)
    artifact_id, is_new = _store(supervisor, job, upload, report, placed)
    if not is_new:
        discard_bytes(placed)
    return artifact_id, is_new


def _place_upload(supervisor: SupervisorSession, job: Job, upload: ArtifactUpload) -> PlacedBytes:
    """Write the bytes unless they are of a stale attempt, or there already.

    `_store` decides about both; this only keeps most of such bytes out of the storage.
    Raise JobNotFound or StaleAttempt.
    """
    placed = bytes_for_store(upload.body)
    if conf.artifact_location() is None:
        return placed
    step = Step.objects.select_related("execution").filter(job_id=job.job_id).first()
    if step is None:
        raise JobNotFound
    refuse_stale(step, supervisor, job.attempt)
    stored = Artifact.objects.filter(execution_id=step.execution_id, repeat=None)
    same = stored.filter(step_id=step.step_id, attempt=job.attempt, path=upload.path)
    if same.filter(sha256=placed.sha256).exists():
        return placed
    return place_bytes(step.execution.run_id, upload.body)


@unit_of_work
def _store(
    supervisor: SupervisorSession,
    job: Job,
    upload: ArtifactUpload,
    report: TestReport,
    placed: PlacedBytes,
) -> tuple[str, bool]:
    execution_pk, index = indexes_of_jobs([job.job_id]).get(job.job_id, (None, 0))
    run = load_run(execution_pk) if execution_pk else None
    if run is None:
        raise JobNotFound
    refuse_stale(run.step(index), supervisor, job.attempt)
    stored = Artifact.objects.filter(execution_id=run.execution.pk, repeat=None)
    stored = stored.filter(step_id=run.step(index).step_id)
    same = stored.filter(attempt=job.attempt, path=upload.path, sha256=placed.sha256)
    known = same.first()
    if known is not None:
        return known.artifact_id, False
    artifact = new_artifact(run, index, upload, placed.sha256)
    artifact.stored_object = keep_bytes(placed)
    artifact.test_summary = report.summary
    artifact.save(force_insert=True)
    if report.problem:
        run.emit_step_event(index, "artifacts", f"{upload.path}: {report.problem}", level="warn")
    save_runs([run])
    return artifact.artifact_id, True


def read_report(upload: ArtifactUpload) -> TestReport:
    if upload.format not in REPORT_FORMATS:
        return TestReport()
    try:
        return TestReport(read_summary(upload.format, upload.body))
    except ReportUnreadable as error:
        return TestReport(problem=f"unreadable {upload.format} report: {error}")
