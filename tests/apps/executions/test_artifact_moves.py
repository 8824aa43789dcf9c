"""Files that move to another storage, also while they are read."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from apps.executions import api
from apps.executions.models import Artifact, Blob, StoredObject
from apps.executions.selectors.artifact_bytes import contents_of, heads_of
from apps.executions.selectors.artifact_files import artifact_archive
from apps.executions.selectors.junit_report import junit_document
from apps.executions.services import artifact_objects
from apps.executions.services.artifact_moves import move_artifacts
from apps.executions.services.artifact_objects import remove_marked_objects
from apps.executions.services.artifact_retention import expire_artifacts
from tests.apps.executions.runs import Worker, booted_run, node
from tests.apps.executions.stored_files import (
    BIG,
    age,
    everywhere,
    file_of,
    objects,
    unzip,
    uploaded,
)
from tests.apps.executions.test_artifacts import EXPORTS, RED, junit, store
from tests.support.artifact_storages import FailingStorage, new_bucket, use_location, use_store
from tests.support.commands import command_output
from tests.support.threads import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]


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
    return command_output(capsys, "artifacts", *words)[:2]


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
    parts = artifact_archive(run.principal, run.id)
    first = next(parts)
    use_location(settings, url)

    list(move_artifacts())
    remove_marked_objects()

    archive = zipfile.ZipFile(io.BytesIO(first + b"".join(parts)))
    assert archive.namelist() == ["a/1/0.txt", "a/1/1.txt", "a/1/2.txt"]


def test_an_archive_has_what_moves_into_the_store_while_it_is_sent(
    worker: Worker, settings: Any, failing: FailingStorage
) -> None:
    """Its object may be gone, or its row too."""
    run = uploaded(worker, b"one", b"two", b"three")
    archive = artifact_archive(run.principal, run.id)
    parts = [next(archive)]
    use_store(settings)
    list(move_artifacts())
    second = StoredObject.objects.order_by("created_at")[1]
    failing.inner.remove(second.name)
    parts.append(next(archive))
    StoredObject.objects.all().delete()
    parts += archive

    assert list(unzip(parts).values()) == [b"one", b"two", b"three"]


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
        list(move_artifacts())
        remove_marked_objects()
        yield from contents_of(reports)

    monkeypatch.setattr("apps.executions.selectors.junit_report.contents_of", move_first)

    assert b'name="b"' in junit_document(run.principal, run.id)


def test_a_page_shows_a_text_again_that_was_removed_elsewhere(
    worker: Worker, settings: Any, failing: FailingStorage
) -> None:
    """The head of a removed object is empty: it is not what is known of equal bytes."""
    text = uuid4().hex  # another test's head of equal bytes is known to the whole process
    first = uploaded(worker, text.encode())
    place = StoredObject.objects.get().pk
    artifact_objects.mark_objects_removed([place])

    assert list(heads_of([place])) == []
    assert "content" not in api.detail(first.principal, first.id)["artifacts"][0]
    use_store(settings)
    second = uploaded(worker, text.encode())
    assert api.detail(second.principal, second.id)["artifacts"][0]["content"] == text


def test_a_move_beside_the_retention_leaves_nothing_behind(
    worker: Worker, settings: Any, url: str
) -> None:
    settings.EXECUTION_ARTIFACT_RETENTION_S = 3600.0
    run = uploaded(worker, *(b"%d" % number for number in range(20)))
    worker.end("a")
    age(run, hours=2)
    use_location(settings, url)

    at_once([lambda: len(list(move_artifacts())), expire_artifacts])
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

    assert list(move_artifacts()) == []
    assert Blob.objects.count() == 0


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
