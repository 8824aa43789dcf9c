"""Objects without a row: kept for a while, looked for page by page, removed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import F

from apps.console.management.commands import store as store_command
from apps.executions import api
from apps.executions.models import Artifact, StoredObject, WorkLease
from apps.executions.services import artifact_objects, storage
from apps.executions.services.artifact_objects import remove_marked_objects, remove_orphans
from apps.executions.services.artifact_sweeper import ArtifactSweep
from apps.executions.services.storage import remove_old_runs
from apps.operations.api import installation_id
from kernel import clock
from tests.apps.executions.runs import Worker
from tests.apps.executions.stored_files import everywhere, file_of, objects, uploaded
from tests.apps.executions.test_artifacts import store
from tests.support.artifact_storages import FailingStorage, Killed, use_location, use_store

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]


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


def test_objects_whose_artifacts_an_older_process_removed_follow(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded(worker, b"one")
    Artifact.objects.all().delete()
    monkeypatch.setattr(artifact_objects, "ORPHAN_AGE", timedelta(days=-1))

    remove_orphans()
    remove_marked_objects()

    assert (objects(), StoredObject.objects.count()) == ([], 0)


def test_turns_of_the_sweeper_do_both(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = uploaded(worker, b"one")
    artifact_objects.place_bytes(run.id, b"orphan")
    worker.end("a")
    storage.delete(run.principal, run.id)
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
