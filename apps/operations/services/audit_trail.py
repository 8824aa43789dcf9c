"""Audit rows, written by one thread behind a bounded queue: no request ever waits for them."""

from __future__ import annotations

import logging
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
from kernel.background_writer import BackgroundWriter, QueueLimits

logger = logging.getLogger("partita.system")

CAPACITY: Final = 10_000
BATCH: Final = 500
RETENTION: Final = timedelta(days=90)
_RETENTION_SWEEP_S: Final = 3600.0
_GATHER_S: Final = 0.25


class AuditTrail:
    """`put` never blocks; what does not fit, or cannot be stored, counts as dropped."""

    def __init__(self, *, capacity: int = CAPACITY) -> None:
        self._next_sweep = 0.0
        self._writer = BackgroundWriter(
            "audit",
            self._write,
            QueueLimits(items=capacity, batch_items=BATCH, gather_s=_GATHER_S),
            after_failure=close_old_connections,
            at_end=lambda: connection.close(),  # noqa: PLW0108 - of the thread that ends
        )

    def put(self, record: Audited) -> None:
        if not self._writer.put(record):
            metrics.count("partita.audit.dropped")

    def close(self, timeout_s: float = 5.0) -> None:
        """Store what is queued and end the thread; the next `put` starts another."""
        if dropped := self._writer.close(timeout_s):
            metrics.count("partita.audit.dropped", dropped)

    def _write(self, batch: Sequence[Audited]) -> None:
        close_old_connections()
        store(batch)
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
