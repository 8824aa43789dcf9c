"""The engine overview: cached in this process, and read from the store when runs have changed.

A refresh compares versions with the store and reads what changed, so that a lost nudge delays it
by at most `MAX_AGE_S`.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Event, Lock
from typing import Final
from uuid import UUID

from django.db.models import Count, QuerySet

from apps.accounts.api import Principal, visible_workspaces
from apps.executions.domain import overview as rules
from apps.executions.domain.events import OVERVIEW_NUDGE
from apps.executions.domain.overview import OverviewBody, RunFact, StepFact
from apps.executions.domain.states import FINAL_EXECUTION, ExecutionStatus
from apps.executions.models import Execution, Step
from apps.executions.selectors.runs import all_runs, summaries
from apps.executions.selectors.snapshots import edges_of
from apps.streams import api as streams
from kernel import clock

MAX_AGE_S: Final = 0.25
_FINISHED_HELD: Final = 5_000  # of 24 hours, over all workspaces
_ACTIVE: Final = [status for status in ExecutionStatus if status not in FINAL_EXECUTION]
_TICKING: Final = ("duration", "durationMs")
_Mark = tuple[int, datetime]


@dataclass(frozen=True, slots=True)
class _Entry:
    row: Execution
    fact: RunFact

    @property
    def mark(self) -> _Mark:
        return self.row.version, self.row.updated_at


class OverviewCache:
    """The runs of all workspaces that the overview shows, for any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[UUID, _Entry] = {}
        self._changed = Event()
        self._read_at = float("-inf")
        streams.listen(OVERVIEW_NUDGE, self._changed.set)

    def entries(self) -> Mapping[str, _Entry]:
        """Return the entries by run id, as the store has them now."""
        with self._lock:
            if self._changed.is_set() or time.monotonic() - self._read_at > MAX_AGE_S:
                self._changed.clear()  # before the reads: later changes are read again
                self._refresh()
                self._read_at = time.monotonic()
            return {entry.row.run_id: entry for entry in self._entries.values()}

    def _refresh(self) -> None:
        marks = _marks(clock.now())
        changed = [
            pk
            for pk, mark in marks.items()
            if pk not in self._entries or self._entries[pk].mark != mark
        ]
        kept = {pk: entry for pk, entry in self._entries.items() if pk in marks}
        self._entries = kept | _read(changed)


_overview_cache: OverviewCache | None = None
_overview_cache_lock = Lock()


def overview_cache() -> OverviewCache:
    """The one of this process, made and filled at first use."""
    global _overview_cache  # noqa: PLW0603 - one memory a process
    with _overview_cache_lock:
        if _overview_cache is None:
            _overview_cache = OverviewCache()
        return _overview_cache


def overview(principal: Principal, *, workspace_id: str | None = None) -> OverviewBody:
    """The overview of the caller's scope (reference: control-plane 16).

    Raises InvalidInput (invalid_parameter) when `workspace_id` is no UUID.
    """
    return overview_of(visible_workspaces(principal, workspace_id))


def overview_of(workspaces: frozenset[UUID] | None) -> OverviewBody:
    """Return the overview of these workspaces; None means all."""
    now = clock.now()
    entries = overview_cache().entries()
    scope = None if workspaces is None else frozenset(map(str, workspaces))
    shown = [
        entries[fact.id]
        for fact in rules.shown(
            (entry.fact for entry in entries.values()), workspaces=scope, now=now
        )
    ]
    items = [
        rules.item(entry.fact, summary, clock.rfc3339(entry.row.updated_at))
        for entry, summary in zip(
            shown, summaries([entry.row for entry in shown], now=now), strict=True
        )
    ]
    return rules.document(items, updated_at=clock.rfc3339(now))


class OverviewTaker:
    """Returns the overview as JSON bytes, the same ones while nothing but durations has changed."""

    def __init__(self, workspaces: frozenset[UUID] | None) -> None:
        self._workspaces = workspaces
        self._known: dict[str, object] = {}
        self._body = b""

    def __call__(self) -> bytes:
        document = overview_of(self._workspaces)
        known = _without_clock(document)
        if known != self._known or not self._body:
            self._known = known
            self._body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        return self._body


def _without_clock(document: OverviewBody) -> dict[str, object]:
    runs = [
        {key: value for key, value in run.items() if key not in _TICKING}
        for run in document["executions"]
    ]
    return {"summary": document["summary"], "executions": runs}


def _marks(now: datetime) -> dict[UUID, _Mark]:
    """Return the runs of the overview: primary key → (version, time of the last change)."""
    active = all_runs().filter(status__in=_ACTIVE)
    finished = all_runs().filter(
        status__in=list(FINAL_EXECUTION), finished_at__gt=now - rules.FINISHED_FOR
    )
    rows: list[QuerySet[Execution, Execution]] = [
        active,
        finished.order_by("-finished_at")[:_FINISHED_HELD],
    ]
    return {
        pk: (version, updated_at)
        for query in rows
        for pk, version, updated_at in query.values_list("pk", "version", "updated_at")
    }


def _read(pks: Collection[UUID]) -> dict[UUID, _Entry]:
    """Read runs with three queries, and one more for the snapshots that are not cached."""
    if not pks:
        return {}
    rows = list(Execution.objects.filter(pk__in=list(pks)).defer("message", "cancel_reason"))
    counts = _step_counts(pks)
    steps = _active_steps([row for row in rows if row.status in _ACTIVE])
    return {row.pk: _Entry(row, _fact(row, counts[row.pk], steps.get(row.pk, ()))) for row in rows}


def _fact(row: Execution, counts: Mapping[str, int], steps: tuple[StepFact, ...]) -> RunFact:
    active = row.status in _ACTIVE
    return RunFact(
        id=row.run_id,
        workspace_id=str(row.workspace_id),
        accepted_at=row.started_at,
        finished_at=None if active else row.finished_at,
        counts=counts,
        steps=steps,
    )


def _step_counts(pks: Collection[UUID]) -> Mapping[UUID, dict[str, int]]:
    counts: dict[UUID, dict[str, int]] = defaultdict(dict)
    grouped = (
        Step.objects.filter(execution_id__in=list(pks))
        .values_list("execution_id", "status")
        .annotate(number=Count("pk"))
    )
    for pk, status, number in grouped:
        counts[pk][status] = number
    return counts


def _active_steps(rows: Collection[Execution]) -> dict[UUID, tuple[StepFact, ...]]:
    edges_by_snapshot = edges_of(row.snapshot_id for row in rows)
    edges = {row.pk: edges_by_snapshot[row.snapshot_id] for row in rows}
    steps: dict[UUID, list[StepFact]] = defaultdict(list)
    query = Step.objects.filter(execution_id__in=list(edges)).order_by("index")
    columns = ("execution_id", "step_id", "name", "kind", "status", "level")
    for pk, step_id, name, kind, status, level in query.values_list(*columns):
        steps[pk].append(
            StepFact(
                id=step_id,
                name=name,
                kind=kind,
                status=status,
                level=level,
                depends_on=edges[pk][step_id].depends_on,
            )
        )
    return {pk: tuple(found) for pk, found in steps.items()}
