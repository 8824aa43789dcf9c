"""Load an archive into an empty store: all of it, or a store that says it is half restored."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from django.apps import apps as installed_apps
from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from apps.operations.domain.store_archive import (
    ArchiveInvalid,
    ArchiveReader,
    BackupManifest,
    Row,
    TableSummary,
)
from apps.operations.models import Installation, ReadinessMark
from apps.operations.services.server_processes import living_servers
from apps.operations.services.store import RESTORE_MARK, is_half_restored
from apps.operations.services.store_backup import Progress, StoreConflict
from apps.operations.services.store_rows import (
    MigrationHistory,
    Model,
    insert_rows,
    table_summary,
)
from kernel import clock
from kernel.errors import NotFound

# Numbers that others compare with what they have seen before: they must never come back. Each
# continues at the time in seconds, which none of them reaches by counting.
NEVER_AGAIN: Final = {"system.CacheGeneration": "number", "sync.DestinationLock": "generation"}
_NAMED: Final = 5
_ELSEWHERE: Final = "restore into a new file or database"
AfterLoad = Callable[[], None]


def restore(
    source: Path, progress: Progress, after: AfterLoad, *, max_bytes: int | None, as_copy: bool
) -> BackupManifest:
    """Check the archive, load it into the configured store, migrate that, and call `after`.

    `after` ends what must not go on. With `as_copy`, the store becomes an installation of its own.
    Raise NotFound, ArchiveInvalid, and StoreConflict if the store is not empty or is in use.
    """
    if not source.is_file():
        raise NotFound(f"there is no file {source}")
    archive = ArchiveReader(source, max_bytes=max_bytes)
    try:
        _require_room(archive.manifest)
        for _table in archive.verify():
            pass
        _create_private_file()
        models = _prepare_tables(archive.manifest)
        _mark()
        with _one_transaction():
            _load(archive, models, progress)
        call_command("migrate", verbosity=0, interactive=False)
        _continue_numbers()
        if as_copy:
            Installation.objects.all().delete()
        after()
        ReadinessMark.objects.filter(pk=RESTORE_MARK).delete()
    finally:
        archive.close()
    return archive.manifest


def verify_backup(source: Path, progress: Progress, *, max_bytes: int | None) -> BackupManifest:
    """Check an archive as `restore` does, and return its manifest; raise the same errors."""
    if not source.is_file():
        raise NotFound(f"there is no file {source}")
    archive = ArchiveReader(source, max_bytes=max_bytes)
    try:
        for table in archive.verify():
            progress(table)
    finally:
        archive.close()
    return archive.manifest


def _prepare_tables(manifest: BackupManifest) -> Mapping[str, Model]:
    """Make the tables as the migrations of the archive describe them; return their models."""
    history = MigrationHistory()
    if unknown := history.unknown(manifest.migrations):
        raise StoreConflict(
            f"a newer release of Partita ({manifest.partita}) wrote the archive: {unknown[0]} is "
            "unknown here. Restore it with that release or a newer one"
        )
    models = history.models(manifest.migrations)
    given = {each.model for each in manifest.tables}
    if wrong := given.symmetric_difference(models):
        raise ArchiveInvalid(f"these tables are missing or unknown: {', '.join(sorted(wrong))}")
    if not history.applied:
        executor = MigrationExecutor(connection)
        executor.migrate(history.targets(manifest.migrations))
    else:
        _require_unused()
        _require_empty(history)
        if history.applied != dict(manifest.migrations):
            raise StoreConflict(
                "the store is empty, but its tables are of another release than the archive: "
                f"{_ELSEWHERE} that has no tables"
            )
    return models


def _require_unused() -> None:
    """Raise StoreConflict while a process is known to use the store."""
    if servers := living_servers():
        raise StoreConflict(f"{servers} control-plane processes use the store: stop them first")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*), max(coalesce(nullif(application_name, ''), '?')) "
                "FROM pg_stat_activity WHERE datname = current_database() "
                "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            others, name = cursor.fetchone()
        if others:
            raise StoreConflict(
                f"{others} other connections use the database (one is of {name}): stop every "
                "process of Partita, and close what else is connected"
            )


def _require_empty(history: MigrationHistory) -> None:
    """Raise StoreConflict if any table that an archive holds has a row."""
    full = [
        model
        for model in history.models(history.applied).values()
        if model._default_manager.exists()
    ]
    if not full:
        return
    if is_half_restored():
        raise StoreConflict(
            f"a restore into this store was cut short, and parts of it are there: {_ELSEWHERE}"
        )
    found = ", ".join(
        f"{model._default_manager.count()} of {model._meta.label}" for model in full[:_NAMED]
    )
    raise StoreConflict(
        f"the store is not empty (rows: {found}). Nothing is ever restored over data: "
        f"{_ELSEWHERE}, or move this one away"
    )


def _load(archive: ArchiveReader, models: Mapping[str, Model], progress: Progress) -> None:
    """Insert every row, then compare what the store has with the archive."""
    for table in archive.manifest.tables:
        insert_rows(models[table.model], _rows(archive, table))
    for table in archive.manifest.tables:
        found = table_summary(models[table.model])
        if found != table:
            raise ArchiveInvalid(
                f"{table.model}: the store has {found.rows} rows with the SHA-256 {found.sha256} "
                f"where the archive has {table.rows} with {table.sha256}: it keeps some value "
                "differently"
            )
        progress(found)


def _rows(archive: ArchiveReader, table: TableSummary) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(archive.lines(table), start=1):
        yield len(line), archive.decode(table, number, line)


@contextmanager
def _one_transaction() -> Iterator[None]:
    """One transaction for everything; MongoDB ends those of more than a minute, so none there."""
    if connection.vendor == "mongodb":
        yield
        return
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


def _continue_numbers() -> None:
    start = int(time.time())
    for label, column in NEVER_AGAIN.items():
        model = installed_apps.get_model(label)
        model._default_manager.filter(**{f"{column}__lt": start}).update(**{column: start})


def _mark() -> None:
    ReadinessMark.objects.filter(pk=RESTORE_MARK).delete()
    ReadinessMark.objects.create(pk=RESTORE_MARK, written_at=clock.now())


def _create_private_file() -> None:
    """Create the file of a new SQLite store with mode 0600, which its WAL inherits."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or ":memory:" in name or "mode=memory" in name:
        return
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _require_room(manifest: BackupManifest) -> None:
    """Raise StoreConflict if the disk of a SQLite store cannot hold the rows."""
    if connection.vendor != "sqlite":
        return
    folder = Path(str(connection.settings_dict["NAME"])).absolute().parent
    while not folder.exists():
        folder = folder.parent
    needed = sum(each.bytes for each in manifest.tables)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StoreConflict(f"{folder} has {free} bytes free, the rows need up to {needed}")
