"""Audit rows, written by one thread behind a bounded queue: no request ever waits for them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from apps.observability.api import metrics
from apps.operations.domain.audit import Audited
from apps.operations.models import AuditRecord
from kernel import clock
from kernel.background import BackgroundThread

logger = logging.getLogger("partita.system")

CAPACITY: Final = 10_000
BATCH: Final = 500
RETENTION: Final = timedelta(days=90)
_RETENTION_SWEEP_S: Final = 3600.0
_GATHER_S: Final = 0.25


class AuditTrail:
    """`put` never blocks; what does not fit, or cannot be stored, counts as dropped."""

    def __init__(self, *, capacity: int = CAPACITY) -> None:
        self._queue: queue.Queue[Audited | None] = queue.Queue(capacity)
        self._thread: BackgroundThread | None = None
        self._starting = threading.Lock()
        self._next_sweep = 0.0

    def put(self, record: Audited) -> None:
        self._ensure_thread()
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            metrics.count("partita.audit.dropped")

    def close(self, timeout_s: float = 5.0) -> None:
        """Store what is queued and end the thread; the next `put` starts another."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(timeout_s)

    def _ensure_thread(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = BackgroundThread(
                    "audit", self._run, after_failure=close_old_connections
                )
                self._thread.start()

    def _run(self) -> None:
        going_on = True
        while going_on:
            batch, going_on = self._gather()
            close_old_connections()
            if batch:
                store(batch)
            self._sweep()
        connection.close()

    def _gather(self) -> tuple[list[Audited], bool]:
        """The next records, after a short wait for company; False when the trail is closed."""
        first = self._queue.get()
        batch = [first]
        deadline = time.monotonic() + _GATHER_S
        while batch[-1] is not None and len(batch) < BATCH:
            try:
                batch.append(self._queue.get(timeout=max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                break
        return [record for record in batch if record is not None], batch[-1] is not None

    def _sweep(self) -> None:
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + _RETENTION_SWEEP_S
            forget_old()


def store(batch: Sequence[Audited]) -> None:
    """Write the rows; when the store refuses, they count as dropped (their lines are written)."""
    try:
        AuditRecord.objects.bulk_create(AuditRecord(**asdict(record)) for record in batch)
    except (DatabaseError, InterfaceError) as error:
        metrics.count("partita.audit.dropped", len(batch))
        logger.warning("%s audit records could not be stored: %s", len(batch), error)
    except Exception:
        metrics.count("partita.audit.dropped", len(batch))
        raise


def forget_old() -> None:
    """Delete the rows older than 90 days."""
    try:
        AuditRecord.objects.filter(time__lt=clock.now() - RETENTION).delete()
    except (DatabaseError, InterfaceError) as error:
        logger.warning("old audit records could not be deleted: %s", error)


trail: Final = AuditTrail()
