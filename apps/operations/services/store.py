"""The primary store: which errors mean that it is away, its probe, and who this platform is."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Final
from uuid import UUID

from django.db import Error, InterfaceError, OperationalError, connection

from apps.operations.models import Installation, ReadinessMark
from kernel.errors import PlatformError

# The mark of a restore that is not complete: a row that no backup holds.
RESTORE_MARK: Final = UUID("70617274-6974-4a00-8000-726573746f72")
DETAIL: Final = "the datastore does not answer or is busy; try again"
HALF_RESTORED: Final = (
    "the store is half restored: `store restore` was cut short or still works. Restore the "
    "archive into a new file or database"
)

# PostgreSQL: no connection (08), out of resources (53), a lost race (40), a lock that was not
# had in time (55P03), a session that stood still too long (25P03), a server that ends (57P).
_POSTGRES: Final = ("08", "53", "40", "55P03", "25P03", "57P")
_SQLITE: Final = ("BUSY", "LOCKED", "IOERR", "CANTOPEN", "FULL", "READONLY", "PROTOCOL")


class DatastoreUnavailable(PlatformError):
    """The store cannot be reached, or did not take a use case in time."""

    code = "datastore_unavailable"

    def __init__(self, detail: str = DETAIL) -> None:
        super().__init__(detail)


def is_store_away(error: BaseException) -> bool:
    """Return whether `error`, raised by Django or a driver, says that the store is away or busy.

    Errors of a statement (no such table, a broken constraint) are not: they stay internal errors.
    """
    if isinstance(error, (OperationalError, InterfaceError)):
        return _by_cause(error.__cause__ or error)
    return _is_lost_mongo(error) or (
        isinstance(error, Error) and error.__cause__ is not None and _is_lost_mongo(error.__cause__)
    )


def is_store_writable() -> bool:
    """Write a row, read it and delete it; return whether it was found."""
    mark = ReadinessMark.objects.create()
    found = ReadinessMark.objects.filter(id=mark.id).exists()
    ReadinessMark.objects.filter(id=mark.id).delete()
    return found


def is_half_restored() -> bool:
    """Return whether a restore into this store has not been completed."""
    return ReadinessMark.objects.filter(pk=RESTORE_MARK).exists()


def require_whole_store() -> None:
    """Raise DatastoreUnavailable for a store that is half restored."""
    if is_half_restored():
        raise DatastoreUnavailable(HALF_RESTORED)


def _by_cause(cause: BaseException) -> bool:
    if name := getattr(cause, "sqlite_errorname", None):
        return str(name).removeprefix("SQLITE_").startswith(_SQLITE)
    if connection.vendor == "sqlite":
        return "locked" in str(cause)
    state = getattr(cause, "sqlstate", None)  # None: there was no answer at all
    return state is None or state.startswith(_POSTGRES)


def _is_lost_mongo(error: BaseException) -> bool:
    errors = sys.modules.get("pymongo.errors")  # the driver need not be installed
    return errors is not None and isinstance(
        error, (errors.ConnectionFailure, errors.ExecutionTimeout, errors.WTimeoutError)
    )


@lru_cache(maxsize=1)
def installation_id() -> str:
    """The identity of this platform: a UUID, made at the first call and kept in the store."""
    row, _made = Installation.objects.get_or_create(slot="installation")
    return str(row.id)
