"""Bytes of artifacts in a folder or a bucket: uploads, crashes, removal, orphans, moves."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import storages
from django.core.management import execute_from_command_line
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from apps.console.management.commands import store as store_command
from apps.executions import api
from apps.executions.domain.artifact_storage import (
    ArtifactLost,
    FoundObject,
    ListedStorage,
    StorageUnavailable,
)
from apps.executions.models import Artifact, Blob, Execution, StoredObject, WorkLease
from apps.executions.selectors.artifact_bytes import (
    check_artifact_storage,
    contents_of,
    forget_pauses,
    heads_of,
)
from apps.executions.selectors.detail import RunDetail
from apps.executions.services import (
    artifact_objects,
    artifact_retention,
    artifact_uploads,
)
from apps.executions.services.artifact_objects import remove_marked_objects, remove_orphans
from apps.executions.services.artifact_retention import expire_artifacts
from apps.executions.services.artifact_sweeper import ArtifactSweep, require_artifact_storage
from apps.executions.services.run_aggregate import save_runs
from apps.executions.services.storage import remove_old_runs
from apps.operations.api import installation_id
from apps.streams.api import DatastoreUnavailable, LostRace
from kernel import clock
from kernel.agent_protocol import job_of
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.apps.executions.test_artifacts import EXPORTS, GREEN, RED, junit, store
from tests.apps.executions.test_fencing import upload
from tests.support.artifact_storages import (
    FailingStorage,
    Killed,
    fail_storage,
    new_bucket,
    use_location,
    use_store,
)
from tests.support.threads import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]
BIG = bytes(range(256)) * 1_000


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if getattr(request, "param", "disk") == "s3":
        return new_bucket(monkeypatch)
    return tmp_path.as_uri()


@pytest.fixture
def failing(settings: Any, url: str) -> FailingStorage:
    return fail_storage(settings, url)


everywhere = pytest.mark.parametrize("url", ["disk", "s3"], indirect=True)


def objects() -> list[FoundObject]:
    """What the configured storage has of this installation."""
    storage = cast(ListedStorage, storages["artifacts"])
    return list(storage.list_objects(installation_id(), "", 1_000))


def uploaded(worker: Worker, *bodies: bytes) -> Run:
    run = booted_run(node("a", artifactExports=EXPORTS))
    worker.claim()
    for number, body in enumerate(bodies):
        store(worker, "a", body, path=f"{number}.txt")
    return run


def file_of(run: Run, number: int = 0) -> bytes:
    artifact = api.detail(run.principal, run.id)["artifacts"][number]
    return api.artifact_file(run.principal, run.id, artifact["id"]).body


def age(run: Run, **hours: float) -> None:
    then = clock.now() - timedelta(**hours)
    Execution.objects.filter(pk=run.pk).update(finished_at=then)
    Artifact.objects.filter(execution_id=run.pk).update(created_at=then)


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
    found = {api.artifact_file(run.principal, run.id, each["id"]).body for each in artifacts}
    assert found == set(bodies)
    assert len(objects()) == 5


def test_five_uploads_of_the_same_file_leave_one(worker: Worker, failing: FailingStorage) -> None:
    uploaded(worker)

    results = at_once([partial(store, worker, "a", b"same")] * 5)

    assert {artifact_id for artifact_id, _ in results} == {"a-out-txt-raw"}
    assert [is_new for _, is_new in results].count(True) == 1
    assert len(objects()) == StoredObject.objects.count() == 1


@everywhere
def test_a_crash_between_bytes_and_row_leaves_an_orphan_that_goes_after_a_day(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = uploaded(worker, b"one")
    failing.crashes_after = "write"
    with pytest.raises(Killed):
        store(worker, "a", b"two", path="2.txt")
    failing.crashes_after = ""
    assert (len(objects()), StoredObject.objects.count()) == (2, 1)

    remove_orphans()
    assert len(objects()) == 2  # an upload may be under way

    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))
    assert remove_orphans(remove_orphans()) == ""
    assert len(objects()) == 1
    assert file_of(run) == b"one"


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


def test_foreign_objects_are_left_alone(
    worker: Worker, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_location(settings, tmp_path.as_uri())
    uploaded(worker, b"one")
    foreign = [
        tmp_path / "readme.txt",
        tmp_path / str(uuid4()) / "run-a" / uuid4().hex,
        tmp_path / installation_id() / "run-a" / "notes.txt",
        tmp_path / installation_id() / "notes.txt",
    ]
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"of somebody else")
    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))

    remove_orphans()

    assert all(path.exists() for path in foreign)


def test_orphans_are_looked_for_page_by_page(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded(worker, b"one")
    for _ in range(5):
        artifact_objects.place_bytes("run-0123456789ab", b"two")
    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))
    monkeypatch.setattr(artifact_objects, "PAGE", 2)

    after, pages = remove_orphans(), 1
    while after:
        after, pages = remove_orphans(after), pages + 1

    assert (len(objects()), pages) == (1, 4)


@everywhere
def test_bytes_go_with_their_retention(
    worker: Worker, settings: Any, failing: FailingStorage
) -> None:
    settings.EXECUTION_ARTIFACT_RETENTION_S = 3600.0
    run = uploaded(worker, b"one", b"two")
    worker.end("a")
    age(run, hours=2)

    assert expire_artifacts() == 2
    with pytest.raises(Exception, match="removed after the retention time"):
        file_of(run)
    assert remove_marked_objects() == 2

    assert (objects(), StoredObject.objects.count()) == ([], 0)
    assert all("expiredAt" in each for each in api.detail(run.principal, run.id)["artifacts"])


@everywhere
def test_bytes_go_with_their_run(worker: Worker, failing: FailingStorage) -> None:
    run = uploaded(worker, b"one")
    worker.end("a")

    api.delete(run.principal, run.id)
    remove_old_runs()
    remove_marked_objects()

    assert (objects(), StoredObject.objects.count(), Execution.objects.count()) == ([], 0, 0)


def test_a_run_goes_though_the_storage_is_away_and_its_bytes_follow(
    worker: Worker, failing: FailingStorage
) -> None:
    run = uploaded(worker, b"one")
    worker.end("a")
    failing.is_away = True

    api.delete(run.principal, run.id)
    remove_old_runs()
    assert remove_marked_objects() == 0
    assert Execution.objects.count() == 0

    failing.is_away = False
    forget_pauses()
    assert remove_marked_objects() == 1
    assert objects() == []


def marked(worker: Worker, tmp_path: Path, *bodies: bytes, bad: int) -> list[Path]:
    """Have the files of a run removed, the first ones of which cannot be; return those."""
    uploaded(worker, *bodies)
    worker.end("a")
    Artifact.objects.update(stored_object=None, expired_at=clock.now())
    rows = StoredObject.objects.order_by("created_at")
    for minute, row in enumerate(rows):
        then = clock.now() - timedelta(minutes=60 - minute)
        StoredObject.objects.filter(pk=row.pk).update(removed_at=then)
    paths = [tmp_path / row.name for row in rows[:bad]]
    for path in paths:
        path.unlink()
        path.mkdir()
    return paths


def test_an_object_that_cannot_be_removed_keeps_no_other(
    worker: Worker, settings: Any, url: str, tmp_path: Path
) -> None:
    use_location(settings, url)
    (bad,) = marked(worker, tmp_path, b"one", b"two", b"three", bad=1)

    assert remove_marked_objects() == 2
    assert StoredObject.objects.count() == 1

    bad.rmdir()
    assert remove_marked_objects() == 1


def test_many_objects_that_cannot_be_removed_delay_the_others_only(
    worker: Worker, settings: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_location(settings, url)
    marked(worker, tmp_path, *(b"%d" % number for number in range(9)), bad=7)
    monkeypatch.setattr(artifact_objects, "REMOVALS", 4)

    assert [remove_marked_objects() for _ in range(3)] == [0, 0, 2]
    assert StoredObject.objects.count() == 7


def test_a_storage_that_is_away_is_not_asked_for_each_removal(
    worker: Worker, failing: FailingStorage
) -> None:
    run = uploaded(worker, *(b"%d" % number for number in range(9)))
    worker.end("a")
    api.delete(run.principal, run.id)
    remove_old_runs()
    failing.is_away = True

    assert remove_marked_objects() == 0
    assert failing.calls.count("remove") == 3


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


def test_an_orphan_that_cannot_be_removed_keeps_no_other(
    worker: Worker, settings: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_location(settings, url)
    uploaded(worker, b"one")
    for _ in range(3):
        artifact_objects.place_bytes("run-0123456789ab", b"orphan")
    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))
    orphans = sorted((tmp_path / installation_id() / "run-0123456789ab").iterdir())
    orphans[0].unlink()
    orphans[0].mkdir()

    remove_orphans()

    assert [path for path in orphans if path.exists()] == orphans[:1]
    assert StoredObject.objects.count() == 1


def test_objects_without_a_row_stay_for_a_week_after_a_restore(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older backup has no rows of what was written since; a newer one may follow."""
    uploaded(worker, b"one", b"two")
    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))
    Artifact.objects.all().delete()
    StoredObject.objects.all().delete()
    api.put_off_orphans()
    api.put_off_orphans()

    ArtifactSweep().turn()
    assert len(objects()) == 2

    WorkLease.objects.update(expires_at=F("expires_at") - timedelta(days=6, hours=23))
    ArtifactSweep().turn()
    assert len(objects()) == 2

    WorkLease.objects.update(expires_at=F("expires_at") - timedelta(hours=1))
    ArtifactSweep().turn()
    assert objects() == []


def test_a_restore_puts_the_removal_of_orphans_off(worker: Worker) -> None:
    store_command._end_what_was_open()

    lease = WorkLease.objects.get(name="artifact-orphans")
    assert lease.expires_at > clock.now() + timedelta(days=6, hours=23)


def test_a_page_that_is_shorter_than_it_may_be_does_not_end_the_round(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 promises at most so many names, not that a page is full."""
    for _ in range(3):
        artifact_objects.place_bytes("run-0123456789ab", b"orphan")
    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))
    whole = failing.inner.list_objects
    monkeypatch.setattr(
        failing.inner, "list_objects", lambda folder, after, _limit: whole(folder, after, 1)
    )

    after, pages = remove_orphans(), 1
    while after:
        after, pages = remove_orphans(after), pages + 1

    monkeypatch.undo()
    assert (objects(), pages) == ([], 4)


def test_a_crash_between_object_and_row_of_a_removal_is_repeated(
    worker: Worker, failing: FailingStorage
) -> None:
    run = uploaded(worker, b"one")
    worker.end("a")
    api.delete(run.principal, run.id)
    remove_old_runs()
    failing.crashes_after = "remove"
    with pytest.raises(Killed):
        remove_marked_objects()
    failing.crashes_after = ""

    assert remove_marked_objects() == 1
    assert StoredObject.objects.count() == 0


def test_one_turn_removes_so_many(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = uploaded(worker, b"one", b"two", b"three")
    worker.end("a")
    api.delete(run.principal, run.id)
    remove_old_runs()
    monkeypatch.setattr(artifact_objects, "REMOVALS", 2)

    assert [remove_marked_objects() for _ in range(3)] == [2, 1, 0]


def test_a_copy_of_the_store_removes_nothing_of_the_original(
    worker: Worker, failing: FailingStorage
) -> None:
    """`store restore --as-copy` gives the copy an id of its own: its names begin otherwise."""
    run = uploaded(worker, b"one")
    worker.end("a")
    original = next(iter(objects())).name
    foreign = f"{uuid4()}{original[36:]}"
    failing.inner.write(foreign, b"of the original")
    StoredObject.objects.update(name=foreign)
    api.delete(run.principal, run.id)
    remove_old_runs()

    assert remove_marked_objects() == 1
    assert b"".join(failing.inner.read(foreign)) == b"of the original"


def test_objects_whose_artifacts_an_older_process_removed_follow(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded(worker, b"one")
    Artifact.objects.all().delete()
    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))

    remove_orphans()
    remove_marked_objects()

    assert (objects(), StoredObject.objects.count()) == ([], 0)


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


def test_reports_that_are_small_need_no_storage(worker: Worker, failing: FailingStorage) -> None:
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", RED)
    worker.end("unit")
    failing.is_away = True

    assert [case.name for case in api.failed_cases(run.principal, run.id)] == ["b"]
    assert b'failures="1"' in api.junit_document(run.principal, run.id)


def test_the_results_of_a_large_report_wait_for_the_storage(
    worker: Worker, failing: FailingStorage
) -> None:
    """Without its cases, a run would look as if all had passed."""
    cases = b"".join(b"<testcase name='%d'/>" % number for number in range(5_000))
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", b"<testsuite>" + cases + b"</testsuite>")
    worker.end("unit")
    assert b'tests="5000"' in api.junit_document(run.principal, run.id)
    failing.is_away = True

    with pytest.raises(StorageUnavailable):
        api.junit_document(run.principal, run.id)


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

    files = dict(api.run_artifact_files(run.id))

    assert files == {"a/1/0.txt": None, "a/1/1.txt": b"two"}
    assert b"LOST.txt" in b"".join(api.artifact_archive(run.principal, run.id))
    with pytest.raises(ArtifactLost):
        file_of(run, 0)


def test_an_archive_does_not_begin_while_the_storage_is_away(
    worker: Worker, failing: FailingStorage
) -> None:
    run = uploaded(worker, b"one")
    failing.is_away = True

    with pytest.raises(StorageUnavailable):
        api.artifact_archive(run.principal, run.id)


def test_after_a_change_of_the_setting_files_are_read_where_they_are(
    worker: Worker, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = uploaded(worker, b"in the store")
    use_location(settings, tmp_path.as_uri())
    store(worker, "a", b"on disk", path="1.txt")
    use_location(settings, new_bucket(monkeypatch))
    store(worker, "a", b"in a bucket", path="2.txt")
    use_store(settings)
    store(worker, "a", b"in the store again", path="3.txt")

    found = [file_of(run, number) for number in range(4)]

    assert found == [b"in the store", b"on disk", b"in a bucket", b"in the store again"]
    assert (StoredObject.objects.count(), Blob.objects.count()) == (2, 2)


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "artifacts", *words])
    return int(ended.value.code or 0), capsys.readouterr().out


@everywhere
def test_files_move_to_the_configured_storage_and_back(
    worker: Worker, settings: Any, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = uploaded(worker, b"one", BIG, b"one")
    use_location(settings, url)
    store(worker, "a", b"there", path="there.txt")

    assert command(capsys, "move") == (0, f"moved 3 artifacts, {len(BIG) + 6} bytes\n")
    assert (Blob.objects.count(), len(objects())) == (0, 4)
    assert [file_of(run, number) for number in range(4)] == [b"one", BIG, b"one", b"there"]
    assert command(capsys, "move")[1] == "moved 0 artifacts, 0 bytes\n"

    use_store(settings)
    code, out = command(capsys, "move", "-o", "json")
    assert (code, json.loads(out)["moved"]) == (0, 4)
    assert (Blob.objects.count(), StoredObject.objects.filter(removed_at=None).count()) == (3, 0)
    assert [file_of(run, number) for number in range(4)] == [b"one", BIG, b"one", b"there"]
    parts = json.loads(command(capsys, "status", "-o", "json")[1])["storages"]
    assert parts == [
        {"storage": "store", "artifacts": 4, "size": len(BIG) + 11, "removals": 0},
        {"storage": url, "artifacts": 0, "size": 0, "removals": 4},
    ]
    assert remove_marked_objects() == 4


@everywhere
def test_an_archive_has_what_moves_while_it_is_sent(
    worker: Worker, settings: Any, url: str
) -> None:
    run = uploaded(worker, b"one", b"two", BIG)
    parts = api.artifact_archive(run.principal, run.id)
    first = next(parts)
    use_location(settings, url)

    list(api.move_artifacts())
    remove_marked_objects()

    archive = zipfile.ZipFile(io.BytesIO(first + b"".join(parts)))
    assert archive.namelist() == ["a/1/0.txt", "a/1/1.txt", "a/1/2.txt"]


def test_an_archive_has_what_moves_into_the_store_while_it_is_sent(
    worker: Worker, settings: Any, failing: FailingStorage
) -> None:
    """Its object may be gone, or its row too."""
    run = uploaded(worker, b"one", b"two", b"three")
    files = api.run_artifact_files(run.id)
    found = [next(files)]
    use_store(settings)
    list(api.move_artifacts())
    second = StoredObject.objects.order_by("created_at")[1]
    failing.inner.remove(second.name)
    found.append(next(files))
    StoredObject.objects.all().delete()
    found += files

    assert [body for _, body in found] == [b"one", b"two", b"three"]


def test_an_artifact_that_expires_while_an_archive_is_sent_is_left_out(
    worker: Worker, settings: Any, failing: FailingStorage
) -> None:
    settings.EXECUTION_ARTIFACT_RETENTION_S = 3600.0
    run = uploaded(worker, b"one", b"two")
    worker.end("a")
    files = api.run_artifact_files(run.id)
    next(files)
    age(run, hours=2)
    expire_artifacts()
    remove_marked_objects()

    assert list(files) == []


@pytest.mark.parametrize("moves_to", ["url", "store"])
def test_results_have_the_cases_of_reports_that_move(
    worker: Worker, settings: Any, url: str, monkeypatch: pytest.MonkeyPatch, moves_to: str
) -> None:
    use_location(settings, url)
    if moves_to == "url":
        use_store(settings)
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", RED)
    worker.end("unit")
    use_store(settings)
    if moves_to == "url":
        use_location(settings, url)

    def move_first(reports: list[Artifact]) -> Iterator[tuple[str, bytes | None]]:
        list(api.move_artifacts())
        remove_marked_objects()
        yield from contents_of(reports)

    monkeypatch.setattr("apps.executions.selectors.junit_report.contents_of", move_first)

    assert b'name="b"' in api.junit_document(run.principal, run.id)


def test_results_name_a_report_that_is_lost(worker: Worker, failing: FailingStorage) -> None:
    cases = b"".join(b"<testcase name='%d'/>" % number for number in range(5_000))
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", b"<testsuite>" + cases + b"</testsuite>")
    worker.end("unit")
    failing.inner.remove(StoredObject.objects.get().name)

    document = api.junit_document(run.principal, run.id)

    assert b'name="lostReports" value="unit/1/' in document


def test_a_page_shows_a_text_again_that_was_removed_elsewhere(
    worker: Worker, settings: Any, failing: FailingStorage
) -> None:
    """The head of a removed object is empty: it is not what is known of equal bytes."""
    first = uploaded(worker, b"hello")
    place = StoredObject.objects.get().pk
    artifact_objects.mark_objects_removed([place])

    assert list(heads_of([place])) == []
    assert "content" not in api.detail(first.principal, first.id)["artifacts"][0]
    use_store(settings)
    second = uploaded(worker, b"hello")
    assert api.detail(second.principal, second.id)["artifacts"][0]["content"] == "hello"


@contextmanager
def first_statement() -> Iterator[list[str]]:
    """Yield a list that gets the first statement about artifacts; only SQL has some."""
    found: list[str] = []
    with CaptureQueriesContext(connection) as queries:
        yield found
    if connection.vendor == "mongodb":
        pytest.skip("MongoDB repeats a transaction whose rows another one changed")
    named = (each["sql"] for each in queries if "executions_artifact" in each["sql"])
    found.append(next(each for each in named if "executions_step" not in each).split()[0])


def test_what_ends_artifacts_locks_their_rows_first(
    worker: Worker, settings: Any, failing: FailingStorage
) -> None:
    """On PostgreSQL, a move between its read and its write would leave the new bytes behind."""
    settings.EXECUTION_ARTIFACT_RETENTION_S = 3600.0
    run = uploaded(worker, b"one")
    worker.end("a")
    age(run, hours=2)
    due = list(Artifact.objects.values_list("pk", flat=True))

    with first_statement() as of_retention:
        artifact_retention._expire(due)
    api.delete(run.principal, run.id)
    with first_statement() as of_removal:
        remove_old_runs()

    assert (of_retention, of_removal) == (["UPDATE"], ["UPDATE"])
    assert StoredObject.objects.filter(removed_at=None).count() == 0


def test_a_move_beside_the_retention_leaves_nothing_behind(
    worker: Worker, settings: Any, url: str
) -> None:
    settings.EXECUTION_ARTIFACT_RETENTION_S = 3600.0
    run = uploaded(worker, *(b"%d" % number for number in range(20)))
    worker.end("a")
    age(run, hours=2)
    use_location(settings, url)

    at_once([lambda: len(list(api.move_artifacts())), expire_artifacts])
    remove_marked_objects()

    assert (objects(), Blob.objects.count(), StoredObject.objects.count()) == ([], 0, 0)


def test_an_artifact_that_expired_is_not_moved(
    worker: Worker, settings: Any, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EXECUTION_ARTIFACT_RETENTION_S = 3600.0
    run = uploaded(worker, b"one")
    worker.end("a")
    age(run, hours=2)
    use_store(settings)

    def expire_first(run_id: str, body: bytes) -> artifact_objects.PlacedBytes:
        expire_artifacts()
        return artifact_objects.write_bytes(run_id, body)

    monkeypatch.setattr("apps.executions.services.artifact_moves.write_bytes", expire_first)

    assert list(api.move_artifacts()) == []
    assert Blob.objects.count() == 0


def long_report(worker: Worker) -> Run:
    """Return a run that failed, whose report is too long for its row."""
    cases = b"".join(b"<testcase name='%d'/>" % number for number in range(5_000))
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    failed = b"<testcase name='x'><failure/></testcase>"
    junit(worker, "unit", b"<testsuite>" + cases + failed + b"</testsuite>")
    worker.end("unit")
    return run


def test_a_run_is_deleted_without_a_question_to_the_storage_in_its_transaction(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = long_report(worker)
    read, in_transaction = failing.inner.read, list[bool]()

    def look(name: str) -> Iterator[bytes]:
        in_transaction.append(connection.in_atomic_block)
        return read(name)

    monkeypatch.setattr(failing.inner, "read", look)

    api.delete(run.principal, run.id, require=lambda _detail: None)

    assert in_transaction == [False]


def test_a_run_that_changes_while_it_is_deleted_is_looked_at_again(worker: Worker) -> None:
    run = uploaded(worker)
    worker.end("a")
    seen = list[str]()

    def change_once(detail: RunDetail) -> None:
        seen.append(detail["id"])
        if len(seen) == 1:
            Execution.objects.filter(pk=run.pk).update(version=F("version") + 1)

    api.delete(run.principal, run.id, require=change_once)

    assert seen == [run.id, run.id]
    with pytest.raises(api.ExecutionNotFound):
        api.detail(run.principal, run.id)


def test_a_run_that_changes_each_time_is_not_deleted(worker: Worker) -> None:
    run = uploaded(worker)
    worker.end("a")

    def change(_detail: RunDetail) -> None:
        Execution.objects.filter(pk=run.pk).update(version=F("version") + 1)

    with pytest.raises(DatastoreUnavailable, match="changed each time"):
        api.delete(run.principal, run.id, require=change)

    assert Execution.objects.get().deleted_at is None


def test_a_move_names_what_is_lost_and_goes_on(
    worker: Worker, settings: Any, failing: FailingStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    uploaded(worker, b"one", b"two")
    failing.inner.remove(StoredObject.objects.get(artifacts__path="0.txt").name)
    use_store(settings)

    code, out = command(capsys, "move")

    assert (code, out) == (1, "moved 1 artifacts, 3 bytes\n")


def test_a_move_while_the_storage_is_away_says_so(
    worker: Worker, failing: FailingStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.is_away = True
    uploaded(worker, b"one")

    assert command(capsys, "move")[0] == 6
    assert Blob.objects.count() == 1


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


def test_turns_of_the_sweeper_do_both(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = uploaded(worker, b"one")
    artifact_objects.place_bytes(run.id, b"orphan")
    worker.end("a")
    api.delete(run.principal, run.id)
    remove_old_runs()
    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))
    sweep = ArtifactSweep()

    assert sweep.turn()

    assert objects() == []
    failing.is_away = True
    assert sweep.turn()


def test_without_a_storage_the_sweeper_has_nothing_to_do(settings: Any) -> None:
    use_store(settings)
    assert not ArtifactSweep().turn()


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


@pytest.fixture(autouse=True)
def _no_pauses() -> Iterator[None]:
    forget_pauses()
    yield
    forget_pauses()


def test_reports_are_counted_wherever_they_are(worker: Worker, failing: FailingStorage) -> None:
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", GREEN)
    worker.end("unit")

    assert run.status == "Healthy"
    assert b'tests="2"' in api.junit_document(run.principal, run.id)
