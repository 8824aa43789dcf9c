"""Units of work: every write of this project is a use case in one transaction.

    @unit_of_work
    def cancel(...): ...

Use cases take no row locks; a conflict repeats the whole use case.
"""

from __future__ import annotations

import asyncio
import functools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Generic, ParamSpec, TypeVar

from django.db import (
    Error,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)

from apps.operations.api import DatastoreUnavailable
from apps.streams import conf

P = ParamSpec("P")
R = TypeVar("R")

_CREATIONS: Final = 3  # repeats of a use case whose unique key was taken
_CONFLICTS: Final = {"40001", "40P01"}  # serialization failure, deadlock (PostgreSQL)
_UNIQUE_VIOLATION: Final = "23505"  # PostgreSQL
_DISCONNECTS: Final = {"57P01", "57P02", "57P03", "08000", "08003", "08006", None}


class LostRace(Exception):
    """A compare-and-set found another version. A use case raises it to be repeated."""


class _Thread(threading.local):
    inside = False  # of a unit of work


_thread = _Thread()


def unit_of_work(use_case: Callable[P, R]) -> Callable[P, R]:
    """Run `use_case` in one transaction, and repeat it after a conflict or a lost connection.

    A unit of work inside another one joins it, without a savepoint; the outermost is repeated. The
    whole function is repeated, so it must change nothing but the store. A unique key that is taken
    counts as a conflict three times or until the patience is over, then the IntegrityError is
    raised. Raise DatastoreUnavailable when repeats for UNIT_OF_WORK_PATIENCE did not help, and
    whatever `use_case` raises; nothing is stored then.
    """

    @functools.wraps(use_case)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if _thread.inside:
            return use_case(*args, **kwargs)
        return _repeat(lambda: use_case(*args, **kwargs))

    return run


def _repeat(work: Callable[[], R]) -> R:
    creations = 0
    for pause_s in _pauses():
        attempt = _Transaction(work)
        try:
            return attempt.run()
        except _repeated_errors() as error:
            is_taken = _is_taken_key(error)
            creations += is_taken
            if creations > _CREATIONS or not attempt.may_repeat(error):
                raise
            if pause_s is None and is_taken:
                raise  # the store has answered
            if pause_s is None or attempt.has_waited_for_store(error):
                raise _unavailable(error) from error
            time.sleep(pause_s)
    raise AssertionError("the last pause is None")


def _unavailable(error: Exception) -> DatastoreUnavailable:
    if isinstance(error, LostRace):
        return DatastoreUnavailable(
            "the datastore is busy: other changes came first each time; try again"
        )
    return DatastoreUnavailable()


def _pauses() -> Iterator[float | None]:
    """Yield growing pauses with jitter, then None once the patience is used up."""
    deadline = time.monotonic() + conf.unit_of_work_patience_s()
    ceiling_s = 0.004
    while time.monotonic() < deadline:
        yield random.uniform(0.001, ceiling_s)  # noqa: S311 - jitter
        ceiling_s = min(0.15, ceiling_s * 2)
    yield None


class _Transaction(Generic[R]):
    """One attempt. It knows whether an error came from the commit: its outcome is unknown then."""

    def __init__(self, work: Callable[[], R]) -> None:
        self._work = work
        self._committing = False
        self._started = time.monotonic()

    def run(self) -> R:
        _drop_broken_connection()
        _thread.inside = True
        try:
            with _atomic():
                result = self._work()
                self._committing = True
            return result
        finally:
            _thread.inside = False

    def has_waited_for_store(self, error: Exception) -> bool:
        """Return whether the driver waited half of the patience for a lock or a connection."""
        took_s = time.monotonic() - self._started
        if isinstance(error, LostRace) or took_s < conf.unit_of_work_patience_s() / 2:
            return False
        return _is_locked(error) or _is_disconnect(error)

    def may_repeat(self, error: Exception) -> bool:
        """Return whether a repeat may help; raise DatastoreUnavailable after a failed commit."""
        if isinstance(error, LostRace) or _is_conflict(error) or _is_taken_key(error):
            return True
        if not isinstance(error, (OperationalError, InterfaceError)):
            return False
        if self._committing or not _is_disconnect(error):
            raise _unavailable(error) from error
        return True


def _drop_broken_connection() -> None:
    """Close a connection that failed before.

    A check of every connection would cost a round trip; a dead one fails the first statement, and
    the use case is repeated on another.
    """
    if connection.errors_occurred and not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def release_stale_connection() -> None:
    """Close a connection that a restart of the store broke, before a read on a thread of our own.

    SQLite has no server, and to open its file again would cost more than the read.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


async def on_store_thread(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Return `work(…)` of a thread, with a connection that no restart of the store has broken.

    For loops and other tasks outside of requests: no middleware looks at the connections of their
    threads.
    """

    def work_connected() -> R:
        release_stale_connection()
        return work(*args, **kwargs)

    return await asyncio.to_thread(work_connected)


def then_disconnect(work: Callable[[], R]) -> R:
    """Return `work()` and close this thread's connection: the thread may be idle for long."""
    try:
        return work()
    finally:
        if not connection.in_atomic_block:
            connection.close()


def _atomic() -> AbstractContextManager[None]:
    if connection.vendor == "mongodb":
        from django_mongodb_backend.transaction import atomic  # the driver may not be installed

        mongo: AbstractContextManager[None] = atomic()
        return mongo
    return transaction.atomic()


def _repeated_errors() -> tuple[type[Exception], ...]:
    if connection.vendor == "mongodb":
        from pymongo.errors import (
            PyMongoError,  # its commit raises errors that Django does not translate
        )

        return (LostRace, Error, PyMongoError)
    return (LostRace, Error)


def _is_conflict(error: Exception) -> bool:
    cause = error.__cause__ or error
    if getattr(cause, "sqlstate", None) in _CONFLICTS:
        return True
    if hasattr(cause, "has_error_label"):
        return bool(cause.has_error_label("TransientTransactionError"))
    return _is_locked(error)


def _is_locked(error: Exception) -> bool:
    """Return whether another connection holds the lock of SQLite."""
    return "database is locked" in str(error) or "database table is locked" in str(error)


def _is_taken_key(error: Exception) -> bool:
    """Return whether a unique key exists already; no repeat helps against other violations."""
    if not isinstance(error, IntegrityError):
        return False
    cause = error.__cause__ or error
    text = str(cause)  # also contains MongoDB's E11000 for a bulk write
    return (
        getattr(cause, "sqlstate", None) == _UNIQUE_VIOLATION
        or "UNIQUE constraint failed" in text
        or "E11000" in text
    )


def _is_disconnect(error: Exception) -> bool:
    return connection.vendor == "postgresql" and (
        getattr(error.__cause__, "sqlstate", None) in _DISCONNECTS
    )
