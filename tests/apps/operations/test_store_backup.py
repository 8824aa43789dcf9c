"""A store saved and loaded again: the same rows, or a clear refusal."""

from __future__ import annotations

import json
import stat
import threading
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, models

from apps.accounts.models import User, Workspace
from apps.executions.models import Blob, StoredObject
from apps.health.services import check_datastore
from apps.operations.api import (
    DatastoreUnavailable,
    StoreConflict,
    TableSummary,
    require_whole_store,
    restore,
    write_backup,
)
from apps.operations.domain.store_archive import MANIFEST, ArchiveInvalid
from apps.operations.models import AuditRecord, CacheGeneration, Installation, ServerProcess
from apps.operations.services.store_rows import MigrationHistory, decode_row, encode_value
from kernel import clock
from kernel.errors import NotFound
from sync_stack.orchestrator.models import DestinationLock, Task
from tests.support.processes import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store, pytest.mark.slow]
KINDS: tuple[type[models.Field[Any, Any]], ...] = (
    models.BinaryField, models.BooleanField, models.CharField, models.DateTimeField,
    models.FloatField, models.IntegerField, models.JSONField, models.TextField, models.UUIDField,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """As the command has it: those of a pool would count as other users of the database."""
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()  # type: ignore[attr-defined]
    pool = connection.settings_dict["OPTIONS"].pop("pool", None)
    if connection.vendor == "postgresql":
        until(lambda: other_connections() == 0, within_s=30, what="the connections to close")
    yield
    connection.close()
    if pool is not None:
        connection.settings_dict["OPTIONS"]["pool"] = pool


def other_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def fill() -> None:
    workspace = Workspace.objects.create(slug="team", name="Team 日本 \\ \" '")
    User.objects.create(workspace=workspace, email="a@b.c", full_name="A", password="hash")
    Blob.objects.create(sha256="0" * 64, size=256, data=bytes(range(256)))
    Blob.objects.create(sha256="1" * 64, size=0, data=b"")
    CacheGeneration.objects.create(topic="profiles", number=7)
    Installation.objects.create()
    AuditRecord.objects.bulk_create(
        AuditRecord(
            time=clock.now() + timedelta(milliseconds=number), request_id=str(number),
            method="GET", route="/", path="/ü", status=200, duration_ms=number, remote_addr="::1",
        )
        for number in range(450)
    )  # fmt: skip
    DestinationLock.objects.create(id="d" * 64, generation=41)
    for name in ("b", "A", "_", "a"):  # PostgreSQL's languages sort these in other ways
        Task.objects.create(
            id=name, kind="webhook", state="succeeded", idempotency_key=name,
            created_at=clock.now(), request={"b": [1, 2.5, None], "a": {"x": "é"}},
        )  # fmt: skip


def everything() -> dict[str, list[dict[str, object]]]:
    history = MigrationHistory()
    return {
        label: [
            {name: encode_value(value) for name, value in row.items()}
            for row in model._default_manager.order_by("pk").values()
        ]
        for label, model in history.models(history.applied).items()
    }


def test_an_archive_says_where_the_bytes_of_artifacts_are(tmp_path: Path):
    fill()
    inside = write_backup(tmp_path / "first.backup", lambda _table: None)
    for number in range(2):
        StoredObject.objects.create(
            storage="s3://reports/partita",
            name=f"{number}",
            size=7,
            head=b"",
            created_at=clock.now(),
        )
    StoredObject.objects.create(
        storage="file:///old", name="gone", size=7, head=b"", created_at=clock.now(),
        removed_at=clock.now(),
    )  # fmt: skip

    elsewhere = write_backup(tmp_path / "second.backup", lambda _table: None)

    assert inside.has_all_artifacts
    assert not elsewhere.has_all_artifacts
    assert elsewhere.not_included[-1:] == (
        "the bytes of 2 artifacts (14 bytes) in s3://reports/partita (ARTIFACT_STORAGE)",
    )


def empty() -> None:
    history = MigrationHistory()
    for model in reversed(history.models(history.applied).values()):
        model._default_manager.all().delete()


def save(folder: Path) -> Path:
    path = folder / "store.backup"
    write_backup(path, lambda _table: None)
    return path


def load(path: Path, *, as_copy: bool = False) -> None:
    restore(path, lambda _table: None, lambda: None, max_bytes=None, as_copy=as_copy)


def change_archive(path: Path, **values: Any) -> None:
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    members[MANIFEST] = json.dumps(json.loads(members[MANIFEST]) | values).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, content)


def test_a_restored_store_has_the_same_rows(tmp_path: Path):
    fill()
    saved = everything()
    path = save(tmp_path)
    empty()

    load(path)

    found = everything()
    for moved in ("system.CacheGeneration", "sync.DestinationLock"):  # see the next test
        del found[moved], saved[moved]
    assert found == saved
    assert bytes(Blob.objects.get(size=256).data) == bytes(range(256))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_that_others_remember_do_not_come_back(tmp_path: Path):
    fill()
    path = save(tmp_path)
    CacheGeneration.objects.update(number=9_000)  # what Redis and the datasources have seen since
    DestinationLock.objects.update(generation=9_000)
    empty()

    load(path)

    assert CacheGeneration.objects.get().number > 9_000
    assert DestinationLock.objects.get().generation > 9_000


def test_a_copy_is_an_installation_of_its_own(tmp_path: Path):
    fill()
    path = save(tmp_path)
    empty()

    load(path, as_copy=True)

    assert not Installation.objects.exists()


def test_a_backup_is_one_moment_while_others_write(tmp_path: Path):
    fill()
    Blob.objects.all().delete()
    wrote: list[bool] = []

    def write_beside() -> None:
        try:
            with connection.cursor() as cursor:
                if connection.vendor == "sqlite":
                    cursor.execute("PRAGMA busy_timeout = 2000")
            Blob.objects.create(sha256="f" * 64, size=1, data=b"x")
            wrote.append(True)
        finally:
            connection.close()

    def meanwhile(table: TableSummary) -> None:
        if not wrote and table.model == "accounts.User":
            thread = threading.Thread(target=write_beside)
            thread.start()
            thread.join()
            assert wrote, "the backup keeps others from writing"

    manifest = write_backup(tmp_path / "store.backup", meanwhile)

    rows = {each.model: each.rows for each in manifest.tables}
    assert (rows["executions.Blob"], Blob.objects.count()) == (0, 1)


def test_nothing_is_restored_over_data(tmp_path: Path):
    fill()
    path = save(tmp_path)

    with pytest.raises(StoreConflict, match=r"not empty \(rows: .*1 of accounts\.User"):
        load(path)

    assert Workspace.objects.count() == 1


def test_a_server_on_the_store_is_noticed(tmp_path: Path):
    path = save(tmp_path)
    ServerProcess.objects.create(id="00000000-0000-4000-8000-000000000001", seen_at=clock.now())

    with pytest.raises(StoreConflict, match="1 control-plane processes use the store"):
        load(path)


def test_another_connection_to_postgresql_is_noticed(tmp_path: Path):
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL tells who is connected")
    path = save(tmp_path)
    other = connection.copy()
    other.ensure_connection()

    try:
        with pytest.raises(StoreConflict, match="1 other connections use the database"):
            load(path)
    finally:
        other.close()
        until(lambda: other_connections() == 0, within_s=30, what="the connection to close")


def test_a_restore_that_is_cut_short_is_said_everywhere(tmp_path: Path):
    fill()
    path = save(tmp_path)
    empty()

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(path, lambda _table: None, killed, max_bytes=None, as_copy=False)

    assert "half restored" in check_datastore().detail
    with pytest.raises(DatastoreUnavailable, match="half restored"):
        require_whole_store()
    with pytest.raises(StoreConflict, match="cut short"):
        load(path)
    with pytest.raises(StoreConflict, match="half restored"):
        save(tmp_path / "..")


def test_a_restore_that_fails_before_its_end_leaves_no_row(tmp_path: Path):
    fill()
    path = save(tmp_path)
    empty()

    def fail(_table: TableSummary) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(path, fail, lambda: None, max_bytes=None, as_copy=False)
    assert not Workspace.objects.exists()
    assert not check_datastore().ready

    load(path)

    assert Workspace.objects.count() == 1
    assert check_datastore().ready


def test_an_archive_of_a_newer_release_is_refused(tmp_path: Path):
    path = save(tmp_path)
    migrations = dict(MigrationHistory().applied)
    migrations["accounts"] += ("0999_from_the_future",)
    change_archive(path, migrations=migrations)

    with pytest.raises(StoreConflict, match=r"newer release .* accounts\.0999_from_the_future"):
        load(path)


def test_a_table_that_nobody_knows_is_refused(tmp_path: Path):
    path = save(tmp_path)
    with zipfile.ZipFile(path) as members:
        manifest = json.loads(members.read(MANIFEST))
    tables = [each for each in manifest["tables"] if each["model"] != "accounts.User"]
    change_archive(path, tables=tables)

    with pytest.raises(ArchiveInvalid, match="not in the manifest"):
        load(path)


def test_a_row_with_an_unknown_column_is_refused(tmp_path: Path):
    with pytest.raises(ArchiveInvalid, match=r"accounts\.Workspace, row 5: .*is_root"):
        decode_row(Workspace, 5, {"id": "x", "is_root": True})


@pytest.mark.parametrize(
    ("column", "value"),
    [("id", "no-uuid"), ("slug", 5), ("created_at", "2026-01-01T00:00:00"), ("version", "many")],
)
def test_a_value_of_another_kind_is_refused(column: str, value: object):
    row: dict[str, object] = {
        "id": "00000000-0000-4000-8000-000000000001", "slug": "a", "name": "A",
        "created_at": "2026-01-01T00:00:00+00:00", "version": 1,
    }  # fmt: skip
    decode_row(Workspace, 1, row)

    with pytest.raises(ArchiveInvalid, match=f"the value of {column} is not one of its kind"):
        decode_row(Workspace, 1, row | {column: value})


def test_an_existing_file_is_not_replaced(tmp_path: Path):
    (tmp_path / "store.backup").write_text("mine")

    with pytest.raises(StoreConflict, match="exists already"):
        save(tmp_path)
    with pytest.raises(NotFound, match="is not a folder"):
        save(tmp_path / "missing")

    assert (tmp_path / "store.backup").read_text() == "mine"


def test_every_column_has_a_form_in_an_archive():
    history = MigrationHistory()
    for label, model in history.models(history.applied).items():
        key = model._meta.pk
        assert not isinstance(key, models.AutoField), f"{label}: numbered anew in another store"
        for field in model._meta.concrete_fields:
            kind = field.target_field if isinstance(field, models.ForeignKey) else field
            assert isinstance(kind, KINDS), f"{label}.{field.name}"
