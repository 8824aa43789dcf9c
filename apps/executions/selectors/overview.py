"""The engine overview: active runs and the last finished ones (reference: control-plane 16).

It is cached in this process and read from the store when runs have changed: a refresh compares
versions with the store and reads what changed, so that a lost nudge delays it by at most
`MAX_AGE_S`.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event, Lock
from typing import Annotated, Any, Final, TypedDict
from uuid import UUID

from django.db.models import Count, QuerySet

from apps.accounts.api import Principal, visible_workspaces
from apps.executions.domain.events import OVERVIEW_NUDGE
from apps.executions.domain.runs import RunFilter, RunSummary
from apps.executions.domain.states import FINAL_EXECUTION, ExecutionStatus, StepStatus
from apps.executions.models import Execution, Step
from apps.executions.selectors.definitions import edges_of
from apps.executions.selectors.runs import NEWEST_FIRST, matching_runs, summaries
from apps.http.api import rows_after
from apps.streams import api as streams
from kernel import clock
from kernel.errors import InvalidInput
from kernel.wire_types import Instant, keywords, one_of

MAX_AGE_S: Final = 0.25
FINISHED_SHOWN: Final = 200
FINISHED_FOR: Final = timedelta(hours=24)
_FINISHED_HELD: Final = 5_000  # of 24 hours, over all workspaces
_ACTIVE: Final = [status for status in ExecutionStatus if status not in FINAL_EXECUTION]
_POSITION: Final = re.compile(r"^(\d{1,14})-([0-9a-f]{32})\Z")  # milliseconds, primary key
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICKING: Final = ("duration", "durationMs")
_Mark = tuple[int, datetime]
_RUN_COUNTS: Final = {
    "Queued": "queuedExecutions",
    "Booting": "bootingExecutions",
    "Canceling": "bootingExecutions",
    "Healthy": "healthyExecutions",
    "Failed": "failedExecutions",
    "Canceled": "canceledExecutions",
}


class OverviewStepBody(TypedDict):
    id: str
    name: str
    kind: str
    status: Annotated[str, one_of(StepStatus)]
    level: int
    dependsOn: list[str]


class StepCountsBody(TypedDict):
    pendingSteps: int
    queuedSteps: int
    runningSteps: int
    healthySteps: int
    failedSteps: int
    skippedSteps: int
    canceledSteps: int


class ActiveSteps(TypedDict, total=False):
    """The steps of a run; absent once it is finished."""

    steps: list[OverviewStepBody]


class OverviewItemBody(RunSummary, StepCountsBody, ActiveSteps):
    """A run in the overview, as on the wire."""

    updatedAt: Instant
    progressRatio: Annotated[float, keywords(minimum=0, maximum=1)]


class OverviewCounts(StepCountsBody):
    totalExecutions: int
    queuedExecutions: int
    bootingExecutions: int
    healthyExecutions: int
    failedExecutions: int
    canceledExecutions: int
    totalSteps: int


class OverviewBody(TypedDict):
    updatedAt: Instant
    summary: OverviewCounts
    executions: list[OverviewItemBody]


@dataclass(frozen=True, slots=True)
class CachedRun:
    """A run in the cache; `counts` has a number for each step status that occurs."""

    row: Execution
    counts: Mapping[str, int]
    steps: list[OverviewStepBody]  # empty once finished

    @property
    def mark(self) -> _Mark:
        return self.row.version, self.row.updated_at

    @property
    def finished_at(self) -> datetime | None:
        return None if self.row.status in _ACTIVE else self.row.finished_at


class OverviewCache:
    """The runs of all workspaces that the overview shows, for any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[UUID, CachedRun] = {}
        self._changed = Event()
        self._read_at = float("-inf")
        streams.listen(OVERVIEW_NUDGE, self._changed.set)

    def entries(self) -> Mapping[str, CachedRun]:
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

    Raises InvalidInput (invalid_parameter) when `workspace_id` is not a UUID.
    """
    return overview_of(visible_workspaces(principal, workspace_id))


def overview_of(workspaces: frozenset[UUID] | None) -> OverviewBody:
    """Return the overview of these workspaces; None means all."""
    now = clock.now()
    entries = overview_runs(overview_cache().entries().values(), workspaces=workspaces, now=now)
    wire = summaries([entry.row for entry in entries], now=now)
    items = [item(entry, summary) for entry, summary in zip(entries, wire, strict=True)]
    return document(items, updated_at=clock.rfc3339(now))


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of the list of runs; `older` is where the next one begins, "" at the end."""

    items: list[OverviewItemBody]
    older: str


def run_page(principal: Principal, wanted: RunFilter, *, before: str = "", limit: int) -> RunPage:
    """Return the newest matching runs, or those that follow `before`, the `older` of a page.

    Raise InvalidInput if `before` is no such thing.
    """
    runs = matching_runs(principal, wanted).only("pk", "started_at")
    after = _position(before) if before else None
    rows = rows_after(after, runs, NEWEST_FIRST, limit=limit + 1)
    more, rows = len(rows) > limit, rows[:limit]
    read = _read([row.pk for row in rows])
    entries = [read[row.pk] for row in rows if row.pk in read]
    wire = summaries([entry.row for entry in entries])
    items = [item(entry, summary) for entry, summary in zip(entries, wire, strict=True)]
    last = rows[-1] if more else None
    if last is None:
        return RunPage(items, "")
    return RunPage(
        items, f"{(last.started_at - _EPOCH) // timedelta(milliseconds=1)}-{last.pk.hex}"
    )


def _position(before: str) -> tuple[datetime, UUID]:
    found = _POSITION.match(before)
    if not found:
        raise InvalidInput("before: this page of runs does not exist", code="invalid_parameter")
    return _EPOCH + timedelta(milliseconds=int(found[1])), UUID(found[2])


class OverviewTaker:
    """Returns the overview as JSON bytes, the same ones while nothing but durations has changed."""

    def __init__(self, workspaces: frozenset[UUID] | None) -> None:
        self._workspaces = workspaces
        self._known: dict[str, object] = {}
        self._body = b""

    def __call__(self) -> bytes:
        document = overview_of(self._workspaces)
        runs = [
            {key: value for key, value in run.items() if key not in _TICKING}
            for run in document["executions"]
        ]
        known: dict[str, object] = {"summary": document["summary"], "executions": runs}
        if known != self._known or not self._body:
            self._known = known
            self._body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        return self._body


def overview_runs(
    entries: Iterable[CachedRun], *, workspaces: Set[UUID] | None, now: datetime
) -> list[CachedRun]:
    """Return the runs of some workspaces (None: of all), newest first.

    Every active one, and of the finished ones the last 200 of 24 hours.
    """
    active: list[CachedRun] = []
    recent: list[tuple[datetime, str, CachedRun]] = []
    for entry in entries:
        row, finished_at = entry.row, entry.finished_at
        if workspaces is not None and row.workspace_id not in workspaces:
            continue
        if finished_at is None:
            active.append(entry)
        elif finished_at > now - FINISHED_FOR:
            recent.append((finished_at, row.run_id, entry))
    recent.sort(key=lambda each: each[:2], reverse=True)
    last = [entry for _, _, entry in recent[:FINISHED_SHOWN]]
    return sorted(
        active + last, key=lambda entry: (entry.row.started_at, entry.row.run_id), reverse=True
    )


def item(entry: CachedRun, summary: RunSummary) -> OverviewItemBody:
    """Return one entry of `executions[]`: the run's Summary, its step counts, its progress."""
    counts = entry.counts
    active: ActiveSteps = {"steps": entry.steps} if entry.finished_at is None else {}
    return {
        **summary,
        "updatedAt": clock.rfc3339(entry.row.updated_at),
        "pendingSteps": counts.get("pending", 0),
        "queuedSteps": counts.get("queued", 0),
        "runningSteps": counts.get("running", 0),
        "healthySteps": counts.get("healthy", 0),
        "failedSteps": counts.get("failed", 0),
        "skippedSteps": counts.get("skipped", 0),
        "canceledSteps": counts.get("canceled", 0),
        "progressRatio": progress(counts),
        **active,
    }


def progress(counts: Mapping[str, int]) -> float:
    """Return the steps neither pending nor queued, of all: 0 … 1, and 0 without steps."""
    total = sum(counts.values())
    waiting = counts.get("pending", 0) + counts.get("queued", 0)
    return round((total - waiting) / total, 4) if total else 0


def document(items: Sequence[OverviewItemBody], *, updated_at: str) -> OverviewBody:
    counted: Sequence[Mapping[str, Any]] = items
    runs = Counter(_RUN_COUNTS[entry["status"]] for entry in items)
    steps = {name: sum(entry[name] for entry in counted) for name in StepCountsBody.__annotations__}
    summary: OverviewCounts = {
        "totalExecutions": len(items),
        "queuedExecutions": runs["queuedExecutions"],
        "bootingExecutions": runs["bootingExecutions"],
        "healthyExecutions": runs["healthyExecutions"],
        "failedExecutions": runs["failedExecutions"],
        "canceledExecutions": runs["canceledExecutions"],
        "totalSteps": sum(steps.values()),
        "pendingSteps": steps["pendingSteps"],
        "queuedSteps": steps["queuedSteps"],
        "runningSteps": steps["runningSteps"],
        "healthySteps": steps["healthySteps"],
        "failedSteps": steps["failedSteps"],
        "skippedSteps": steps["skippedSteps"],
        "canceledSteps": steps["canceledSteps"],
    }
    return {"updatedAt": updated_at, "summary": summary, "executions": list(items)}


def _marks(now: datetime) -> dict[UUID, _Mark]:
    """Return the runs of the overview: primary key → (version, time of the last change)."""
    finished = Execution.objects.not_deleted().filter(
        status__in=list(FINAL_EXECUTION), finished_at__gt=now - FINISHED_FOR
    )
    rows: list[QuerySet[Execution, Execution]] = [
        Execution.objects.not_deleted().filter(status__in=_ACTIVE),
        finished.order_by("-finished_at")[:_FINISHED_HELD],
    ]
    return {
        pk: (version, updated_at)
        for query in rows
        for pk, version, updated_at in query.values_list("pk", "version", "updated_at")
    }


def _read(pks: Collection[UUID]) -> dict[UUID, CachedRun]:
    """Read runs with three queries, and one more for the snapshots that are not cached."""
    if not pks:
        return {}
    rows = list(Execution.objects.filter(pk__in=list(pks)).defer("message", "cancel_reason"))
    counts: dict[UUID, dict[str, int]] = defaultdict(dict)
    grouped = Step.objects.filter(execution_id__in=list(pks)).values_list("execution_id", "status")
    for pk, status, number in grouped.annotate(number=Count("pk")):
        counts[pk][status] = number
    steps = _active_steps([row for row in rows if row.status in _ACTIVE])
    return {row.pk: CachedRun(row, counts[row.pk], steps[row.pk]) for row in rows}


def _active_steps(rows: Collection[Execution]) -> Mapping[UUID, list[OverviewStepBody]]:
    edges_by_snapshot = edges_of(row.snapshot_id for row in rows)
    edges = {row.pk: edges_by_snapshot[row.snapshot_id] for row in rows}
    steps: dict[UUID, list[OverviewStepBody]] = defaultdict(list)
    query = Step.objects.filter(execution_id__in=list(edges)).order_by("index")
    columns = ("execution_id", "step_id", "name", "kind", "status", "level")
    for pk, step_id, name, kind, status, level in query.values_list(*columns):
        steps[pk].append(
            {
                "id": step_id,
                "name": name,
                "kind": kind,
                "status": status,
                "level": level,
                "dependsOn": list(edges[pk][step_id].depends_on),
            }
        )
    return steps
