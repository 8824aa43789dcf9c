"""Forecasts of starts: stored once for each run that waits, at the pace of the sweep.

What was forecast and what came of it gives the interval that the next ones are told
(reference: control-plane 14.4).
"""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import timedelta
from threading import Lock
from typing import Final
from uuid import UUID

from apps.executions.domain.states import ExecutionStatus
from apps.executions.models import Execution
from apps.executions.selectors.run_queue import read_run_queue, recent_starts
from apps.streams.api import unit_of_work
from kernel import clock

_EACH_S: Final = 5.0  # a long queue takes a tenth of a second to play forward
_AGAIN_S: Final = 60.0  # when runs are tried again that start beyond what is played


class _Pace:
    """When this process last looked, and the runs that had no forecast then."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._looked_at = float("-inf")
        self._again_at: dict[UUID, float] = {}

    def is_due(self) -> bool:
        with self._lock:
            is_due = time.monotonic() - self._looked_at >= _EACH_S
            if is_due:
                self._looked_at = time.monotonic()
            return is_due

    def without_late(self, waiting: Collection[UUID]) -> set[UUID]:
        """Return those that were not out of reach a moment ago, and forget who has left."""
        now = time.monotonic()
        self._again_at = {
            pk: self._again_at[pk] for pk in waiting if self._again_at.get(pk, 0.0) > now
        }
        return set(waiting) - self._again_at.keys()

    def keep_late(self, late: Collection[UUID]) -> None:
        self._again_at |= dict.fromkeys(late, time.monotonic() + _AGAIN_S)

    def forget(self) -> None:
        self._looked_at = float("-inf")
        self._again_at = {}


forecast_pace: Final = _Pace()


def forecast_starts() -> int:
    """Store when the runs that wait are expected to start; return of how many.

    Nothing happens within five seconds of the last time in this process. Runs that start beyond
    what is played forward are left alone for a minute.
    """
    if not forecast_pace.is_due():
        return 0
    waiting = Execution.objects.filter(
        status=ExecutionStatus.QUEUED.value, verdict="", expected_wait_ms=None, deleted_at=None
    )
    new = forecast_pace.without_late(list(waiting.values_list("pk", flat=True)))
    if not new:
        return 0
    queue = read_run_queue()
    starts = recent_starts.read(queue, {str(pk) for pk in new})
    known = {pk for pk in new if str(pk) in starts and str(pk) in queue.rows}
    for pk in known:
        waited = queue.now - queue.rows[str(pk)].started_at
        _store_forecast(pk, clock.milliseconds(waited + timedelta(seconds=starts[str(pk)])))
    forecast_pace.keep_late(new - known)
    return len(known)


@unit_of_work
def _store_forecast(pk: UUID, expected_ms: int) -> None:
    Execution.objects.filter(pk=pk, expected_wait_ms=None).update(expected_wait_ms=expected_ms)
