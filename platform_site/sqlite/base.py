"""The engine `platform_site.sqlite`: writers queue, and who waits for an answer waits briefly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from sqlite3 import OperationalError as SqliteError
from typing import Any, Final

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

from platform_site.settings.store import answer_limit_s
from platform_site.sqlite.write_queue import QueueStalled, WriteQueue, queue_of

_WRITES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLAC"})
_READS_ONLY: Final = "DEFERRED"  # a backup sets it: its transaction never writes
_LONG_S: Final = 20.0  # where nobody waits for an answer


class QueuedCursor(base.SQLiteCursorWrapper):
    """A cursor whose writes outside of transactions wait for their turn, too."""

    queue: WriteQueue | None = None

    def execute(self, query: str, params: Any = None) -> Any:
        if self.queue is None or query[:6] not in _WRITES or self.connection.in_transaction:
            return super().execute(query, params)
        with _translate_stalls(), self.queue.turn(stall_s=_stall_s()):
            return super().execute(query, params)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that has its turn from BEGIN to the end of the transaction.

    The type stubs of Django leave out the methods that begin and end one.
    """

    _queue: WriteQueue | None = None
    _has_turn = False

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Open the file; a request and a probe have a connection of their own thread.

        A new file can be read by its owner only; SQLite gives `-wal` and `-shm` the same mode.
        """
        _create_private(str(conn_params["database"]))
        limit = answer_limit_s()
        limited = {} if limit is None else {"timeout": limit}
        self._queue = None if self.is_in_memory_db() else queue_of(str(conn_params["database"]))
        return super().get_new_connection({**conn_params, **limited})

    def create_cursor(self, name: str | None = None) -> Any:
        del name
        cursor = self.connection.cursor(factory=QueuedCursor)
        cursor.queue = self._queue
        return cursor

    def _start_transaction_under_autocommit(self) -> None:
        mode = self.transaction_mode  # type: ignore[attr-defined]  # not in the type stubs
        if self._queue is None or mode == _READS_ONLY:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
            return
        with _translate_stalls():
            self._queue.take(stall_s=_stall_s())
        self._has_turn = True
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._end_turn()
            raise
        self._queue.note_lock()

    def _commit(self) -> Any:
        try:
            return super()._commit()  # type: ignore[misc]
        finally:
            if self.connection is None or not self.connection.in_transaction:
                self._end_turn()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _close(self) -> Any:
        try:
            return super()._close()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        if self._has_turn and self._queue is not None:
            self._has_turn = False
            self._queue.leave()


def _stall_s() -> float:
    return answer_limit_s() or _LONG_S


@contextmanager
def _translate_stalls() -> Iterator[None]:
    """Raise what Django raises for a file that another connection has locked."""
    try:
        yield
    except QueueStalled:
        raise OperationalError("database is locked") from SqliteError("database is locked")


def _create_private(name: str) -> None:
    """Create the file of a database where there is none; a database in memory has no file."""
    if name.startswith((":", "file:")):
        return
    with suppress(OSError):  # it exists, or SQLite says what is wrong
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
