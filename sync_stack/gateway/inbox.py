"""Deliveries kept on disk until the orchestrator accepts them (reference: sync-stack 2.12).

One process owns the file, and one of its threads writes it. Deliveries that arrive during the sync
of a transaction share the next one, and so one sync to disk. They are forwarded in order of arrival
within a repository; several repositories are forwarded at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

from kernel.background import keep_running, one_cycle, report_error
from kernel.background_writer import BackgroundWriter, QueueLimits
from sync_stack.configuration.logs import log_context
from sync_stack.gateway.forwarder import Forwarder, Outbound
from sync_stack.gateway.metrics import GatewayMetrics
from sync_stack.gateway.responses import Code, Refusal
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
_MAX_BATCH: Final = 256  # in one transaction
_SELECT: Final = "SELECT message, correlation_id, traceparent FROM delivery WHERE id = ?"


class InboxUnusable(Exception):
    """The file cannot be opened, or another process uses it."""


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A queued delivery, whose message stays on disk."""

    id: int
    repository: str
    size: int


_Row = tuple[str, bytes, str, str]  # repository, message, correlation id, traceparent
_Action = Callable[[sqlite3.Connection], Any]


@dataclass(frozen=True, slots=True)
class _Job:
    """A delivery to insert, of which `done` gets the id, or another action."""

    action: _Row | _Action
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Inbox:
    """A queue in a SQLite file, which is locked for this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_file = _lock_file_of(path)
        try:
            self._reading, self._writing = _open_store(path), _open_store(path)
            found = self._reading.execute(
                "SELECT id, repository, length(message), state FROM delivery ORDER BY id"
            ).fetchall()
        except sqlite3.Error as error:
            raise InboxUnusable(f"GATEWAY_INBOX {path}: {error}") from None
        self.waiting = [InboxEntry(*row[:3]) for row in found if row[3] == QUEUED]
        self.aside = len(found) - len(self.waiting)
        self.count = len(found)
        self.bytes = sum(row[2] for row in found)
        self.on_put: Callable[[InboxEntry], None] = self.waiting.append
        self._read_turn = threading.Lock()
        self._writer = BackgroundWriter(
            "inbox", self._commit, QueueLimits(items=inf, batch_items=_MAX_BATCH)
        )

    async def put(self, repository: str, sent: Outbound) -> bool:
        """Store a delivery; return False when the inbox is full or the disk fails."""
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
        self.on_put(InboxEntry(number, repository, size))
        return True

    def read(self, entry: InboxEntry) -> Outbound:
        """Load a delivery; blocks. Raises sqlite3.Error, KeyError."""
        with self._read_turn:
            row = self._reading.execute(_SELECT, (entry.id,)).fetchone()
        if row is None:
            raise KeyError(entry.id)
        key = ProcessWebhookRequest.FromString(row[0]).idempotency_key
        return Outbound(
            message=row[0], idempotency_key=key, correlation_id=row[1], traceparent=row[2]
        )

    async def remove(self, entry: InboxEntry) -> None:
        """Raises sqlite3.Error."""
        await self._run(
            lambda store: store.execute("DELETE FROM delivery WHERE id = ?", (entry.id,))
        )
        self._forget(entry.size)

    async def set_aside(self, entry: InboxEntry) -> None:
        """Keep a delivery without another try. Raises sqlite3.Error."""
        await self._run(
            lambda store: store.execute(
                "UPDATE delivery SET state = 'aside' WHERE id = ?", (entry.id,)
            )
        )
        self.aside += 1

    def close(self) -> None:
        self._writer.close(5)
        self._reading.close()
        self._writing.close()
        os.close(self._lock_file)

    def _forget(self, size: int) -> None:
        self.count -= 1
        self.bytes -= size

    async def _run(self, action: _Row | _Action) -> Any:
        """Return the result of an action after its transaction was synced to disk."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._writer.put(_Job(action, loop, done))
        return await done

    def _commit(self, jobs: Sequence[_Job]) -> None:
        """Run all jobs in one transaction, which fails for all; wake the event loop once.

        An error that is not the disk's is raised after the jobs have failed.
        """
        store, results = self._writing, list[Any]()
        failure: Exception | None = None
        try:
            store.execute("BEGIN IMMEDIATE")
            rows = [job.action for job in jobs if isinstance(job.action, tuple)]
            ids = iter(_insert(store, rows))
            results = [
                next(ids) if isinstance(job.action, tuple) else job.action(store) for job in jobs
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
            jobs[0].loop.call_soon_threadsafe(_resolve_futures, jobs, results, failure)


def _insert(store: sqlite3.Connection, rows: Sequence[_Row]) -> range:
    """Insert the rows by one statement and return their ids.

    Each statement makes this thread wait for the event loop, which is busy under load.
    """
    if not rows:
        return range(0)
    values = ", ".join([_VALUES] * len(rows))
    columns = [column for row in rows for column in row]
    last = store.execute(f"{_INSERT} VALUES {values}", columns).lastrowid or 0
    return range(last - len(rows) + 1, last + 1)


def _resolve_futures(
    jobs: Sequence[_Job], results: Sequence[Any], failure: Exception | None
) -> None:
    for number, job in enumerate(jobs):
        if job.done.done():  # its caller was cancelled
            continue
        if failure is not None:
            job.done.set_exception(failure)
        else:
            job.done.set_result(results[number])


def _open_store(path: Path) -> sqlite3.Connection:
    store = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=FULL")
    store.execute(_SCHEMA)
    return store


def _lock_file_of(path: Path) -> int:
    """Lock a file beside it: two forwarders of one inbox would break the order."""
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
        raise InboxUnusable(f"GATEWAY_INBOX {path}: another process is using it") from None
    return lock


MAX_CONCURRENT: Final = 8
FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 30.0
_BREAKER_POLL_S: Final = 1.0
_PERMANENT_FAILURES: Final = frozenset({Code.DATASOURCE_NOT_FOUND, Code.PAYLOAD_VALIDATION})


class InboxForwarder:
    """Forwards the inbox with a task for each repository, until its queue is empty."""

    def __init__(
        self,
        inbox: Inbox,
        forwarder: Forwarder,
        metrics: GatewayMetrics,
        timeout_s: Callable[[], float],
    ) -> None:
        self._inbox = inbox
        self._forwarder = forwarder
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._queues: dict[str, deque[InboxEntry]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self.first_pause_s = FIRST_PAUSE_S

    def start(self) -> None:
        """Forward new deliveries, and those that an earlier process left."""
        left, self._inbox.waiting = self._inbox.waiting, []
        self._inbox.on_put = self._add
        for entry in left:
            self._add(entry)
        inbox, gauge = self._inbox, self._metrics.inbox
        gauge.labels(QUEUED).set_function(lambda: inbox.count - inbox.aside)
        gauge.labels(ASIDE).set_function(lambda: inbox.aside)

    async def stop(self) -> None:
        """Stop forwarding; what is left stays in the file."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _add(self, entry: InboxEntry) -> None:
        queue = self._queues.get(entry.repository)
        if queue is not None:
            queue.append(entry)
        else:
            self._queues[entry.repository] = deque((entry,))
            follow = partial(self._follow, entry.repository)
            task = asyncio.create_task(keep_running("inbox-forwarder", follow))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _follow(self, repository: str) -> None:
        queue = self._queues[repository]
        pause = self.first_pause_s
        while queue:
            if closed_for := self._forwarder.breaker.wait_s():
                # no attempt, so the pause stays; a ping may end the breaker's before its time
                await asyncio.sleep(min(_BREAKER_POLL_S, closed_for))
            elif await self._try(queue[0]):
                queue.popleft()
                pause = self.first_pause_s
            elif not self._forwarder.breaker.wait_s():
                await asyncio.sleep(pause)
                pause = min(MAX_PAUSE_S, pause * 2)
        del self._queues[repository]

    async def _try(self, entry: InboxEntry) -> bool:
        """Forward a delivery; return whether it needs no other attempt."""
        with one_cycle():
            return await self._forward(entry)

    async def _forward(self, entry: InboxEntry) -> bool:
        try:
            async with self._slots:
                sent = await asyncio.to_thread(self._inbox.read, entry)
                with log_context(correlation_id=sent.correlation_id):
                    await self._forwarder.forward(sent, timeout_s=self._timeout_s())
            await self._inbox.remove(entry)
        except Refusal as refusal:
            return refusal.code in _PERMANENT_FAILURES and await self._set_aside(entry, refusal)
        except KeyError:
            return True
        except sqlite3.Error as error:
            log.warning("the inbox cannot be used: %s", error, extra={"event": "inbox_failed"})
            report_error()
            return False
        return True

    async def _set_aside(self, entry: InboxEntry, refusal: Refusal) -> bool:
        log.error(
            "a delivery is set aside: %s",
            refusal.message,
            extra={
                "event": "delivery_set_aside",
                "inbox_id": entry.id,
                "repository": entry.repository,
                "code": refusal.code.value,
            },
        )
        with contextlib.suppress(sqlite3.Error):  # then the next start tries it again
            await self._inbox.set_aside(entry)
        return True
