"""One use case, one transaction: the only way in which this project writes.

    @unit_of_work
    def cancel(...): ...

The store never holds row locks for us; a lost race repeats the whole use case.
"""

from __future__ import annotations

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

from apps.streams import conf
from apps.system.api import DatastoreUnavailable

P = ParamSpec("P")
R = TypeVar("R")

_CREATIONS: Final = 3  # repeats of a use case that created what another had created meanwhile
_CONFLICTS: Final = {"40001", "40P01"}  # serialization failure, deadlock (PostgreSQL)
_UNIQUE_VIOLATION: Final = "23505"  # PostgreSQL
_DISCONNECTS: Final = {"57P01", "57P02", "57P03", "08000", "08003", "08006", None}


class LostRace(Exception):
    """A compare-and-set found another version: raised inside a use case to have it repeated."""


class _Thread(threading.local):
    inside = False  # of a unit of work


_thread = _Thread()


def unit_of_work(use_case: Callable[P, R]) -> Callable[P, R]:
    """Run `use_case` in one transaction, again when it lost a race or the store says so.

    A unit of work inside another joins it: no savepoint, and the outermost repeats. What is
    repeated is the whole function: it must not touch anything but the store, nor change its
    arguments. A key that another took since it was looked up is a lost race as well, three times;
    then it was not looked up, and the IntegrityError is the answer. Raises DatastoreUnavailable
    when repeating for UNIT_OF_WORK_PATIENCE did not help, and whatever `use_case` raises (then
    nothing is stored).
    """

    @functools.wraps(use_case)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if _thread.inside:
            return use_case(*args, **kwargs)
        return _until_settled(lambda: use_case(*args, **kwargs))

    return run


def _until_settled(work: Callable[[], R]) -> R:
    creations = 0
    for pause_s in _pauses():
        attempt = _Attempt(work)
        try:
            return attempt.run()
        except _repeated_errors() as error:
            creations += _is_taken_key(error)
            if creations > _CREATIONS or not attempt.may_repeat(error):
                raise
            if pause_s is None or attempt.waited_for_store(error):
                raise _unavailable(error) from error
            time.sleep(pause_s)
    raise AssertionError("the last pause is None")


def _unavailable(error: Exception) -> DatastoreUnavailable:
    if isinstance(error, LostRace):
        return DatastoreUnavailable(
            "the datastore is busy: other changes kept coming first; try again"
        )
    return DatastoreUnavailable()


def _pauses() -> Iterator[float | None]:
    """Growing, jittered pauses; None once the patience is used up."""
    deadline = time.monotonic() + conf.unit_of_work_patience_s()
    ceiling_s = 0.004
    while time.monotonic() < deadline:
        yield random.uniform(0.001, ceiling_s)  # noqa: S311 - jitter
        ceiling_s = min(0.15, ceiling_s * 2)
    yield None


class _Attempt(Generic[R]):
    """One try; knows whether a failure fell into the commit, whose outcome is then unknown."""

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

    def waited_for_store(self, error: Exception) -> bool:
        """Whether the driver waited for a lock or a connection for half of the patience."""
        took_s = time.monotonic() - self._started
        if isinstance(error, LostRace) or took_s < conf.unit_of_work_patience_s() / 2:
            return False
        return _is_locked(error) or _is_disconnect(error)

    def may_repeat(self, error: Exception) -> bool:
        """Raises DatastoreUnavailable for a store that is away while it commits."""
        if isinstance(error, LostRace) or _is_conflict(error) or _is_taken_key(error):
            return True
        if not isinstance(error, (OperationalError, InterfaceError)):
            return False
        if self._committing or not _is_disconnect(error):
            raise _unavailable(error) from error
        return True


def _drop_broken_connection() -> None:
    """A connection found dead fails the first statement; the use case is then tried on another.

    To ask each time whether it lives would cost a round trip and its return to the pool.
    """
    if connection.errors_occurred and not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def release_stale_connection() -> None:
    """Before reading on a thread of our own, or a restart of the store is never noticed.

    SQLite has no server that could go away, and to open its file anew costs more than a reading.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def and_let_go(work: Callable[[], R]) -> R:
    """`work`, after which this thread keeps no connection to the store: it may idle for long."""
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
        from pymongo.errors import PyMongoError  # its commit raises errors that nobody translates

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
    """Another connection to SQLite holds its lock."""
    return "database is locked" in str(error) or "database table is locked" in str(error)


def _is_taken_key(error: Exception) -> bool:
    """Whether a unique key exists already; any other IntegrityError stays when it is repeated."""
    if not isinstance(error, IntegrityError):
        return False
    cause = error.__cause__ or error
    text = str(cause)  # MongoDB's number of it, E11000, stands in what a bulk write raises, too
    return (
        getattr(cause, "sqlstate", None) == _UNIQUE_VIOLATION
        or "UNIQUE constraint failed" in text
        or "E11000" in text
    )


def _is_disconnect(error: Exception) -> bool:
    return connection.vendor == "postgresql" and (
        getattr(error.__cause__, "sqlstate", None) in _DISCONNECTS
    )
