"""Write a consistent archive of the store, beside processes that go on writing."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from django.db import connection, transaction
from django.db.models import Count, Sum

from apps.operations import conf
from apps.operations.domain.store_archive import (
    ARTIFACTS_ELSEWHERE,
    ArchiveWriter,
    BackupManifest,
    TableSummary,
)
from apps.operations.services.store import is_half_restored
from apps.operations.services.store_rows import (
    MigrationHistory,
    Model,
    read_lines,
    rows_left_out,
)
from kernel import clock
from kernel.errors import NotFound, PlatformError
from kernel.version import VERSION

NOT_INCLUDED: Final = (
    "the keys: JWT_SECRET, SETTINGS_ENCRYPTION_KEY and their previous values"
    " (`up` keeps them in DATA_DIR/up.env)",
    "configuration.yaml (PLATFORM_SETTINGS_FILE) and svc-profiles.yaml (PROFILES_FILE)",
    "the folders of suites and modules (SUITES_DIR, MODULES_DIR)",
    "the data folders of workers (their DATA_DIR), and Redis",
)
_NO_DEFAULT: Final = "start `up` once with this DATA_DIR, or name the store and run `migrate`"
Progress = Callable[[TableSummary], None]


class StoreConflict(PlatformError):
    """The store or a file is not in the state that the command needs."""

    code = "precondition_failed"


def write_backup(target: Path, progress: Progress) -> BackupManifest:
    """Write the archive `target` (mode 0600), which appears once it is complete.

    Raise StoreConflict if it exists or the store is half restored, NotFound without a store.
    """
    if target.exists():
        raise StoreConflict(f"{target} exists already: name another file, or move it away")
    if not target.parent.is_dir():
        raise NotFound(f"{target.parent} is not a folder")
    require_store()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            manifest = _write(cast(BinaryIO, file), progress)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return manifest


def require_store() -> None:
    """Raise NotFound where SQLite would make a new file instead of reading one."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite" and not _is_in_memory(name) and not Path(name).exists():
        raise NotFound(f"there is no store {name}: {_NO_DEFAULT}")


def key_fingerprints() -> tuple[str, ...]:
    """Return what tells the encryption keys apart and does not reveal them, current one first."""
    digests = (
        hashlib.sha256(b"partita.fingerprint\0" + key.encode()) for key in conf.encryption_keys()
    )
    return tuple(dict.fromkeys(each.hexdigest()[:16] for each in digests))


@contextmanager
def snapshot() -> Iterator[None]:
    """Let all reads see the store as it is now, without keeping others from writing.

    SQLite: one read transaction in WAL mode. PostgreSQL: REPEATABLE READ. MongoDB: a snapshot
    session, which a replica set offers for `minSnapshotHistoryWindowInSeconds` (5 minutes).
    """
    if connection.vendor == "mongodb":
        with _mongo_snapshot():
            yield
        return
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        connection.transaction_mode = "DEFERRED"  # type: ignore[attr-defined]  # IMMEDIATE locks
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


def _write(stream: BinaryIO, progress: Progress) -> BackupManifest:
    with snapshot():
        history = MigrationHistory()
        migrations = history.applied
        if not migrations:
            raise NotFound(f"the store has no tables: {_NO_DEFAULT}")
        if is_half_restored():
            raise StoreConflict("the store is half restored: there is nothing whole to save")
        if unknown := history.unknown(migrations):
            raise StoreConflict(
                f"a newer release of Partita made this store (it has {unknown[0]}): "
                "save it with that release"
            )
        models = history.models(migrations)
        writer = ArchiveWriter(stream)
        tables = []
        for label, model in models.items():
            tables.append(writer.write_table(label, read_lines(model)))
            progress(tables[-1])
        manifest = BackupManifest(
            created_at=clock.rfc3339(clock.now()),
            partita=VERSION,
            store=conf.db_driver(),
            installation=_installation(models),
            migrations=migrations,
            tables=tuple(tables),
            keys=key_fingerprints(),
            not_included=(
                *NOT_INCLUDED,
                *_artifacts_elsewhere(models),
                *(f"{rows} rows of {label}" for label, rows in rows_left_out().items()),
            ),
        )
        writer.close(manifest)
    return manifest


def _installation(models: dict[str, Model]) -> str:
    """Return the id of the installation, empty if none was made yet."""
    found = models["system.Installation"]._default_manager.values_list("pk", flat=True).first()
    return str(found or "")


def _artifacts_elsewhere(models: dict[str, Model]) -> list[str]:
    """Say which bytes of artifacts are outside of the store; an older store has no such table."""
    if (model := models.get("executions.StoredObject")) is None:
        return []
    rows = model._default_manager.filter(removed_at=None).order_by().values_list("storage")
    return [
        f"the bytes of {count} artifacts ({size} bytes) in {storage} {ARTIFACTS_ELSEWHERE}"
        for storage, count, size in rows.annotate(Count("pk"), Sum("size"))
    ]


@contextmanager
def _mongo_snapshot() -> Iterator[None]:
    from pymongo.errors import ConfigurationError, OperationFailure  # it may not be installed

    connection.ensure_connection()
    client = connection.connection
    try:
        with client.start_session(snapshot=True) as session:
            connection.session = session  # type: ignore[attr-defined]  # the engine reads with it
            yield
    except (ConfigurationError, OperationFailure) as error:
        raise StoreConflict(
            f"MongoDB gives no snapshot: {error}. It takes a replica set, and a backup within its"
            " minSnapshotHistoryWindowInSeconds; `mongodump --oplog` has no such limit"
        ) from error
    finally:
        connection.session = None  # type: ignore[attr-defined]


def _is_in_memory(name: str) -> bool:
    return ":memory:" in name or "mode=memory" in name
