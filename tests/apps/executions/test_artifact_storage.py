"""Uploads to a folder or a bucket: bytes and rows, crashes, a storage that is away, the start."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.executions import api
from apps.executions.domain.artifact_storage import StorageUnavailable
from apps.executions.models import Blob, StoredObject
from apps.executions.selectors.artifact_bytes import check_artifact_storage, forget_pauses
from apps.executions.selectors.artifact_files import artifact_file
from apps.executions.services import artifact_objects, artifact_uploads
from apps.executions.services.artifact_objects import remove_marked_objects, remove_orphans
from apps.executions.services.artifact_sweeper import require_artifact_storage
from apps.executions.services.run_aggregate import save_runs
from apps.streams.api import LostRace
from kernel import clock
from kernel.agent_protocol import job_of
from tests.apps.executions.runs import Worker, booted_run, node
from tests.apps.executions.stored_files import BIG, everywhere, file_of, objects, uploaded
from tests.apps.executions.test_artifacts import EXPORTS, RED, junit, store
from tests.apps.executions.test_fencing import upload
from tests.support.artifact_storages import FailingStorage, use_location, use_store
from tests.support.threads import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]


@everywhere
def test_bytes_go_to_the_storage_and_not_into_the_store(
    worker: Worker, failing: FailingStorage, url: str
) -> None:
    run = uploaded(worker, b"one", BIG)

    assert [file_of(run, 0), file_of(run, 1)] == [b"one", BIG]
    assert Blob.objects.count() == 0
    assert set(StoredObject.objects.values_list("storage", flat=True)) == {url}
    assert {each.name for each in objects()} == set(
        StoredObject.objects.values_list("name", flat=True)
    )
    assert all(f"/{run.id}/" in each.name for each in objects())


@everywhere
def test_a_page_shows_texts_and_images_though_the_storage_is_away(
    worker: Worker, failing: FailingStorage
) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(100_000)
    run = uploaded(worker, b"a text", png, b"x" * 70_000)
    failing.is_away = True
    failing.calls.clear()

    text, image, long = api.detail(run.principal, run.id)["artifacts"]

    assert text["content"] == "a text"
    assert (image["imageType"], "content" in image) == ("image/png", False)
    assert (len(long["content"]), long["truncated"]) == (65_536, True)
    assert failing.calls == []


def test_the_same_file_again_is_written_once(worker: Worker, failing: FailingStorage) -> None:
    uploaded(worker, b"one")

    assert store(worker, "a", b"one", path="0.txt") == ("a-0-txt-raw", False)

    assert failing.calls.count("write") == 1
    assert len(objects()) == 1


def test_a_stale_attempt_writes_nothing(worker: Worker, failing: FailingStorage) -> None:
    uploaded(worker, b"one")
    job = job_of(worker.jobs["a"])
    worker.end("a")

    with pytest.raises(api.StaleAttempt):
        api.store_artifact(worker.supervisor, job, upload(b"late"))

    assert failing.calls.count("write") == 1


@everywhere
def test_five_uploads_at_once(worker: Worker, failing: FailingStorage) -> None:
    run = uploaded(worker)
    bodies = [f"{number}".encode() * 1000 for number in range(5)]

    at_once(
        [
            partial(store, worker, "a", body, path=f"{number}.txt")
            for number, body in enumerate(bodies)
        ]
    )

    artifacts = api.detail(run.principal, run.id)["artifacts"]
    found = {artifact_file(run.principal, run.id, each["id"]).body for each in artifacts}
    assert found == set(bodies)
    assert len(objects()) == 5


def test_five_uploads_of_the_same_file_leave_one(worker: Worker, failing: FailingStorage) -> None:
    uploaded(worker)

    results = at_once([partial(store, worker, "a", b"same")] * 5)

    assert {artifact_id for artifact_id, _ in results} == {"a-out-txt-raw"}
    assert [is_new for _, is_new in results].count(True) == 1
    assert len(objects()) == StoredObject.objects.count() == 1


def test_a_crash_after_the_row_leaves_nothing_to_mend(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that hears no answer sends the file again, and gets the same artifact."""
    run = uploaded(worker)
    stored = store(worker, "a", b"one")

    assert store(worker, "a", b"one") == (stored[0], False)
    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))
    remove_orphans()
    assert file_of(run) == b"one"


def test_a_transaction_that_is_repeated_keeps_its_object(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a commit was lost: the second try finds the artifact, and removes nothing."""
    run = uploaded(worker)
    placed = artifact_objects.place_bytes(run.id, b"one")
    placed.written.save(force_insert=True)  # type: ignore[union-attr]

    artifact_objects.discard_bytes(placed)

    assert len(objects()) == 1


def test_a_removal_that_fails_keeps_no_upload_from_the_storage(
    worker: Worker, settings: Any, url: str, tmp_path: Path
) -> None:
    use_location(settings, url)
    run = uploaded(worker, b"one")
    StoredObject.objects.update(removed_at=clock.now())
    bad = tmp_path / StoredObject.objects.get().name
    bad.unlink()
    bad.mkdir()
    remove_marked_objects()
    with pytest.raises(StorageUnavailable):
        file_of(run)

    store(worker, "a", b"later", path="later.txt")

    assert (Blob.objects.count(), file_of(run, 1)) == (0, b"later")


def test_a_run_ends_though_the_storage_is_away_and_loses_nothing(
    worker: Worker, failing: FailingStorage
) -> None:
    """What it does not take goes into the store, and the verdict counts the report."""
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    store(worker, "unit", b"before")
    failing.is_away = True

    junit(worker, "unit", RED)
    worker.end("unit")

    assert run.reasons == {"unit": "test_failures"}
    assert [case.name for case in api.failed_cases(run.principal, run.id)] == ["b"]
    assert Blob.objects.count() == 1
    with pytest.raises(StorageUnavailable):
        file_of(run, 0)
    assert file_of(run, 1) == RED


def test_a_storage_that_failed_is_asked_again_after_a_while(
    worker: Worker, failing: FailingStorage
) -> None:
    """Each upload would wait for it otherwise."""
    uploaded(worker)
    failing.is_away = True
    for number in range(4):
        store(worker, "a", b"one", path=f"{number}.txt")
    assert failing.calls.count("write") == 1

    failing.is_away = False
    forget_pauses()
    store(worker, "a", b"two")
    assert (failing.calls.count("write"), StoredObject.objects.count()) == (2, 1)


def test_a_storage_that_refuses_at_once_is_asked_for_each_upload(
    worker: Worker, failing: FailingStorage
) -> None:
    uploaded(worker)
    failing.refuses = True
    for number in range(3):
        store(worker, "a", b"one", path=f"{number}.txt")

    assert failing.calls.count("write") == 3


def test_health_names_the_storage(settings: Any, failing: FailingStorage) -> None:
    assert check_artifact_storage().ready
    failing.is_away = True
    result = check_artifact_storage()
    assert not result.ready
    assert result.detail == "it did not answer in time; new artifacts go into the datastore"
    use_store(settings)
    assert check_artifact_storage().disabled


def test_the_start_names_what_is_to_be_mended(settings: Any, tmp_path: Path) -> None:
    use_location(settings, (tmp_path / "missing").as_uri())
    with pytest.raises(ImproperlyConfigured, match=r"^ARTIFACT_STORAGE=file://.*: its folder does"):
        require_artifact_storage()


def test_the_start_does_not_wait_for_a_storage_that_is_away(
    failing: FailingStorage, caplog: pytest.LogCaptureFixture
) -> None:
    failing.is_away = True

    require_artifact_storage()

    assert "new artifacts go into the datastore" in caplog.text


def test_a_lost_race_repeats_the_transaction_with_the_same_object(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = uploaded(worker)
    save, failures = save_runs, iter([LostRace, None])

    def save_second(runs: Any) -> None:
        if error := next(failures):
            raise error
        save(runs)

    monkeypatch.setattr(artifact_uploads, "save_runs", save_second)

    store(worker, "a", b"one")

    assert file_of(run) == b"one"
    assert len(objects()) == StoredObject.objects.count() == 1
