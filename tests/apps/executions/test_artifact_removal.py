"""Bytes go with their retention and their run, whatever the storage does meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from apps.executions import api
from apps.executions.domain.runs import ExecutionNotFound
from apps.executions.models import Artifact, Execution, StoredObject
from apps.executions.selectors.artifact_bytes import forget_pauses
from apps.executions.selectors.detail import RunDetail
from apps.executions.services import artifact_objects, artifact_retention, storage
from apps.executions.services.artifact_objects import remove_marked_objects
from apps.executions.services.artifact_retention import expire_artifacts
from apps.executions.services.storage import remove_old_runs
from apps.streams.api import DatastoreUnavailable
from kernel import clock
from tests.apps.executions.runs import Worker
from tests.apps.executions.stored_files import (
    age,
    everywhere,
    file_of,
    long_report,
    objects,
    uploaded,
)
from tests.support.artifact_storages import FailingStorage, Killed, use_location

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]


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

    storage.delete(run.principal, run.id)
    remove_old_runs()
    remove_marked_objects()

    assert (objects(), StoredObject.objects.count(), Execution.objects.count()) == ([], 0, 0)


def test_a_run_goes_though_the_storage_is_away_and_its_bytes_follow(
    worker: Worker, failing: FailingStorage
) -> None:
    run = uploaded(worker, b"one")
    worker.end("a")
    failing.is_away = True

    storage.delete(run.principal, run.id)
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
    storage.delete(run.principal, run.id)
    remove_old_runs()
    failing.is_away = True

    assert remove_marked_objects() == 0
    assert failing.calls.count("remove") == 3


def test_a_crash_between_object_and_row_of_a_removal_is_repeated(
    worker: Worker, failing: FailingStorage
) -> None:
    run = uploaded(worker, b"one")
    worker.end("a")
    storage.delete(run.principal, run.id)
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
    storage.delete(run.principal, run.id)
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
    storage.delete(run.principal, run.id)
    remove_old_runs()

    assert remove_marked_objects() == 1
    assert b"".join(failing.inner.read(foreign)) == b"of the original"


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
    storage.delete(run.principal, run.id)
    with first_statement() as of_removal:
        remove_old_runs()

    assert (of_retention, of_removal) == (["UPDATE"], ["UPDATE"])
    assert StoredObject.objects.filter(removed_at=None).count() == 0


def test_a_run_is_deleted_without_a_question_to_the_storage_in_its_transaction(
    worker: Worker, failing: FailingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = long_report(worker, b"<testcase name='x'><failure/></testcase>")
    read, in_transaction = failing.inner.read, list[bool]()

    def look(name: str) -> Iterator[bytes]:
        in_transaction.append(connection.in_atomic_block)
        return read(name)

    monkeypatch.setattr(failing.inner, "read", look)

    storage.delete(run.principal, run.id, require=lambda _detail: None)

    assert in_transaction == [False]


def test_a_run_that_changes_while_it_is_deleted_is_looked_at_again(worker: Worker) -> None:
    run = uploaded(worker)
    worker.end("a")
    seen = list[str]()

    def change_once(detail: RunDetail) -> None:
        seen.append(detail["id"])
        if len(seen) == 1:
            Execution.objects.filter(pk=run.pk).update(version=F("version") + 1)

    storage.delete(run.principal, run.id, require=change_once)

    assert seen == [run.id, run.id]
    with pytest.raises(ExecutionNotFound):
        api.detail(run.principal, run.id)


def test_a_run_that_changes_each_time_is_not_deleted(worker: Worker) -> None:
    run = uploaded(worker)
    worker.end("a")

    def change(_detail: RunDetail) -> None:
        Execution.objects.filter(pk=run.pk).update(version=F("version") + 1)

    with pytest.raises(DatastoreUnavailable, match="changed each time"):
        storage.delete(run.principal, run.id, require=change)

    assert Execution.objects.get().deleted_at is None
