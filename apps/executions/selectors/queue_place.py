"""Where a queued run stands, as the Detail of a run tells it (reference: control-plane 14.4)."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from apps.accounts.api import Principal, workspace_names
from apps.executions.domain.queue_forecast import start_interval
from apps.executions.domain.queue_words import start_phrase
from apps.executions.domain.states import ExecutionStatus
from apps.executions.models import Execution
from apps.executions.selectors.run_queue import (
    forecast_ratios,
    read_run_queue,
    recent_starts,
    wait_words,
)
from kernel import clock


class ExpectedStartBody(TypedDict):
    """The interval that 80 % of such runs start in."""

    earliest: str
    latest: str
    text: str


class _Expected(TypedDict, total=False):
    expectedStart: ExpectedStartBody


class QueueBody(_Expected):
    """The place of a queued run, as on the wire; `waitsFor` is empty if it is about to start."""

    position: int
    length: int
    waitsFor: str


def queue_body(row: Execution, principal: Principal | None) -> QueueBody | None:
    """Return the place of a run in the queue; None unless it is queued.

    Administrators and commands (`principal` None) read which workspaces use the places, others
    only whether it is their own.
    """
    if row.status != ExecutionStatus.QUEUED:
        return None
    queue = read_run_queue()
    position = queue.positions.get(row.run_id)
    if position is None:
        return None
    names = {}
    if principal is None or principal.is_admin:
        names = workspace_names({held.workspace_id for held in queue.rows.values()})
    body: QueueBody = {
        "position": position,
        "length": len(queue.candidates),
        "waitsFor": wait_words(queue, row, names),
    }
    expected_s = recent_starts.read(queue, [str(row.pk)]).get(str(row.pk))
    if expected_s is not None:
        earliest, latest = start_interval(expected_s, forecast_ratios(row.backend_id))
        body["expectedStart"] = {
            "earliest": clock.rfc3339(queue.now + timedelta(seconds=earliest)),
            "latest": clock.rfc3339(queue.now + timedelta(seconds=latest)),
            "text": start_phrase(earliest, latest),
        }
    return body
