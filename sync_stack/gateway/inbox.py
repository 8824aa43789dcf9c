"""Deliveries kept on disk until the orchestrator takes them (reference: sync-stack 2.12).

One file, one process, one thread that writes. What arrives while a transaction is being synced
goes together into the next, so a sync to disk is paid once for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from kernel.background import BackgroundThread
from sync_stack.gateway.forwarding import Outbound
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import ProcessWebhookRequest

log: Final = logging.getLogger("partita.sync.gateway")

MAX_DELIVERIES: Final = 100_000
MAX_BYTES: Final = 2 * 2**30
QUEUED: Final = "queued"
ASIDE: Final = "aside"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS delivery (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  repository TEXT NOT NULL,
  message BLOB NOT NULL,
  correlation_id TEXT NOT NULL,
  traceparent TEXT NOT NULL,
  state TEXT NOT NULL
)
"""
_INSERT: Final = "INSERT INTO delivery (repository, message, correlation_id, traceparent, state)"
_VALUES: Final = "(?, ?, ?, ?, 'queued')"
_MOST_AT_ONCE: Final = 256  # in one transaction
_SELECT: Final = "SELECT message, correlation_id, traceparent FROM delivery WHERE id = ?"
_CLOSE: Final = None


class InboxUnusable(Exception):
    """The file cannot be opened, or another process has it; the message says which."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A delivery that waits; its message stays on disk."""

    id: int
    repository: str
    size: int


_Row = tuple[str, bytes, str, str]  # repository, message, correlation id, traceparent
_Act = Callable[[sqlite3.Connection], Any]


@dataclass(frozen=True, slots=True)
class _Job:
    """A delivery to insert, whose number `done` gets, or something else to do."""

    what: _Row | _Act
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Inbox:
    """`put` answers after the sync to disk. Opening locks the file for this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_file = _locked(path)
        try:
            self._reading = _opened(path)
            found = self._reading.execute(
                "SELECT id, repository, length(message), state FROM delivery ORDER BY id"
            ).fetchall()
        except sqlite3.Error as error:
            raise InboxUnusable(f"GATEWAY_INBOX {path}: {error}") from None
        self.waiting = [Queued(*row[:3]) for row in found if row[3] == QUEUED]
        self.aside = len(found) - len(self.waiting)
        self.count = len(found)
        self.bytes = sum(row[2] for row in found)
        self.on_put: Callable[[Queued], None] = self.waiting.append
        self._read_turn = threading.Lock()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = BackgroundThread("inbox", self._write)
        self._thread.start()

    async def put(self, repository: str, sent: Outbound) -> bool:
        """Whether it is on disk; False when the inbox is full or the disk fails."""
        size = len(sent.message)
        if self.count >= MAX_DELIVERIES or self.bytes + size > MAX_BYTES:
            return False
        self.count += 1
        self.bytes += size
        row = (repository, sent.message, sent.correlation_id, sent.traceparent)
        try:
            number = await self._run(row)
        except (sqlite3.Error, OSError) as error:
            self._forget(size)
            log.warning("the inbox cannot be written: %s", error, extra={"event": "inbox_failed"})
            return False
        self.on_put(Queued(number, repository, size))
        return True

    def read(self, entry: Queued) -> Outbound:
        """Blocks for the disk. Raises sqlite3.Error, KeyError."""
        with self._read_turn:
            row = self._reading.execute(_SELECT, (entry.id,)).fetchone()
        if row is None:
            raise KeyError(entry.id)
        key = ProcessWebhookRequest.FromString(row[0]).idempotency_key
        return Outbound(
            message=row[0], idempotency_key=key, correlation_id=row[1], traceparent=row[2]
        )

    async def remove(self, entry: Queued) -> None:
        """Raises sqlite3.Error."""
        await self._run(
            lambda store: store.execute("DELETE FROM delivery WHERE id = ?", (entry.id,))
        )
        self._forget(entry.size)

    async def set_aside(self, entry: Queued) -> None:
        """Keep it, but try it no more. Raises sqlite3.Error."""
        await self._run(
            lambda store: store.execute(
                "UPDATE delivery SET state = 'aside' WHERE id = ?", (entry.id,)
            )
        )
        self.aside += 1

    def close(self) -> None:
        self._jobs.put(_CLOSE)
        self._thread.join(5)
        self._reading.close()
        os.close(self._lock_file)

    def _forget(self, size: int) -> None:
        self.count -= 1
        self.bytes -= size

    async def _run(self, what: _Row | _Act) -> Any:
        """Return what it gives, after the transaction that it is part of was synced."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._jobs.put(_Job(what, loop, done))
        return await done

    def _write(self) -> None:
        with contextlib.closing(_opened(self.path)) as store:
            going = True
            while going:
                jobs = [self._jobs.get()]
                while not self._jobs.empty() and len(jobs) < _MOST_AT_ONCE:
                    jobs.append(self._jobs.get())
                going = _CLOSE not in jobs
                _commit(store, [job for job in jobs if job is not None])


def _commit(store: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
    """All of them in one transaction; a failure is everybody's. The loop is woken once for all.

    Raises what is no failure of the disk, after all have heard of it.
    """
    if not jobs:
        return
    results: list[Any] = []
    failure: Exception | None = None
    try:
        store.execute("BEGIN IMMEDIATE")
        numbers = iter(_insert(store, [job.what for job in jobs if isinstance(job.what, tuple)]))
        results = [
            next(numbers) if isinstance(job.what, tuple) else job.what(store) for job in jobs
        ]
        store.execute("COMMIT")
    except (sqlite3.Error, OSError) as error:
        failure = error
    except Exception as error:
        failure = OSError(f"the inbox failed: {type(error).__name__}")
        raise
    finally:
        if store.in_transaction:
            store.execute("ROLLBACK")
        jobs[0].loop.call_soon_threadsafe(_tell, jobs, results, failure)


def _insert(store: sqlite3.Connection, rows: Sequence[_Row]) -> range:
    """Insert them by one statement; their numbers, in order.

    Each statement costs this thread a turn with the event loop, which is busy while much arrives.
    """
    if not rows:
        return range(0)
    values = ", ".join([_VALUES] * len(rows))
    columns = [column for row in rows for column in row]
    last = store.execute(f"{_INSERT} VALUES {values}", columns).lastrowid or 0
    return range(last - len(rows) + 1, last + 1)


def _tell(jobs: Sequence[_Job], results: Sequence[Any], failure: Exception | None) -> None:
    for number, job in enumerate(jobs):
        if job.done.done():  # whoever asked was cancelled
            continue
        if failure is not None:
            job.done.set_exception(failure)
        else:
            job.done.set_result(results[number])


def _opened(path: Path) -> sqlite3.Connection:
    store = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=FULL")
    store.execute(_SCHEMA)
    return store


def _locked(path: Path) -> int:
    """A lock beside the file: two forwarders of one inbox would break the order."""
    try:
        for name in (path, path.with_name(f"{path.name}.lock")):
            os.close(os.open(name, os.O_CREAT | os.O_RDWR, 0o600))
            name.chmod(0o600)
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR)
    except OSError as error:
        raise InboxUnusable(f"GATEWAY_INBOX {path}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise InboxUnusable(f"GATEWAY_INBOX {path}: another process has it") from None
    return lock
