"""What is read of files in a folder or a bucket: lost, other, or away."""

from __future__ import annotations

from typing import Any

import pytest

from apps.executions import api
from apps.executions.domain.artifact_storage import ArtifactLost, StorageUnavailable
from apps.executions.models import StoredObject
from apps.executions.selectors.artifact_files import artifact_archive
from apps.executions.selectors.junit_report import junit_document
from apps.executions.services.artifact_objects import remove_marked_objects
from apps.executions.services.artifact_retention import expire_artifacts
from tests.apps.executions.runs import Worker, booted_run, node
from tests.apps.executions.stored_files import age, file_of, long_report, unzip, uploaded
from tests.apps.executions.test_artifacts import EXPORTS, GREEN, RED, junit
from tests.support.artifact_storages import FailingStorage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]


def test_reports_that_are_small_need_no_storage(worker: Worker, failing: FailingStorage) -> None:
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", RED)
    worker.end("unit")
    failing.is_away = True

    assert [case.name for case in api.failed_cases(run.principal, run.id)] == ["b"]
    assert b'failures="1"' in junit_document(run.principal, run.id)


def test_the_results_of_a_large_report_wait_for_the_storage(
    worker: Worker, failing: FailingStorage
) -> None:
    """Without its cases, a run would look as if all had passed."""
    run = long_report(worker)
    assert b'tests="5000"' in junit_document(run.principal, run.id)
    failing.is_away = True

    with pytest.raises(StorageUnavailable):
        junit_document(run.principal, run.id)


def test_other_bytes_than_were_written_are_not_sent(
    worker: Worker, failing: FailingStorage
) -> None:
    run = uploaded(worker, b"one")
    name = StoredObject.objects.get().name
    failing.inner.write(name, b"two")
    with pytest.raises(ArtifactLost, match="other bytes"):
        file_of(run)

    failing.inner.write(name, b"x" * 1_000_000)
    with pytest.raises(ArtifactLost, match="other bytes"):
        file_of(run)


def test_a_lost_file_is_named_in_the_archive(worker: Worker, failing: FailingStorage) -> None:
    run = uploaded(worker, b"one", b"two")
    lost = StoredObject.objects.get(artifacts__path="0.txt")
    failing.inner.remove(lost.name)

    files = unzip(artifact_archive(run.principal, run.id))

    assert files == {"a/1/1.txt": b"two", "LOST.txt": b"a/1/0.txt\n"}
    with pytest.raises(ArtifactLost):
        file_of(run, 0)


def test_an_archive_does_not_begin_while_the_storage_is_away(
    worker: Worker, failing: FailingStorage
) -> None:
    run = uploaded(worker, b"one")
    failing.is_away = True

    with pytest.raises(StorageUnavailable):
        artifact_archive(run.principal, run.id)


def test_an_artifact_that_expires_while_an_archive_is_sent_is_left_out(
    worker: Worker, settings: Any, failing: FailingStorage
) -> None:
    settings.EXECUTION_ARTIFACT_RETENTION_S = 3600.0
    run = uploaded(worker, b"one", b"two")
    worker.end("a")
    parts = artifact_archive(run.principal, run.id)
    first = next(parts)
    age(run, hours=2)
    expire_artifacts()
    remove_marked_objects()

    assert unzip([first, *parts]) == {"a/1/0.txt": b"one"}


def test_results_name_a_report_that_is_lost(worker: Worker, failing: FailingStorage) -> None:
    run = long_report(worker)
    failing.inner.remove(StoredObject.objects.get().name)

    document = junit_document(run.principal, run.id)

    assert b'name="lostReports" value="unit/1/' in document


def test_reports_are_counted_wherever_they_are(worker: Worker, failing: FailingStorage) -> None:
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", GREEN)
    worker.end("unit")

    assert run.status == "Healthy"
    assert b'tests="2"' in junit_document(run.principal, run.id)
