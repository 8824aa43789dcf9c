"""The queue of runs: their turns, what they wait for, and when they are expected to start.

(reference: control-plane 14.4)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Q

from apps.executions import conf
from apps.executions.domain.fair_share import (
    Account,
    Happened,
    Occupant,
    account_of,
    settle_accounts,
)
from apps.executions.domain.place_queue import (
    PlaceLimits,
    PlaceQueue,
    Wait,
    Waiter,
    lanes_of,
    turns,
    wait_of,
)
from apps.executions.domain.queue_forecast import (
    RATIOS_USED,
    Durations,
    expected_starts,
    forecast_ratio,
)
from apps.executions.domain.queue_words import wait_phrase
from apps.executions.domain.states import FINAL_EXECUTION, ExecutionStatus
from apps.executions.models import Execution, FairQueue
from apps.platform_settings.api import backends, workspace_shares
from kernel import clock

RUNS: Final = "runs"  # the name of the queue of runs
_PLAYED_FOR_S: Final = 2.0
_HISTORY: Final = 200  # runs of which durations are known
_ACTIVE: Final = [
    str(status)
    for status in ExecutionStatus
    if status not in FINAL_EXECUTION and status is not ExecutionStatus.QUEUED
]


class QueuedRun(NamedTuple):
    """What the queue reads of a run that waits or is active: there may be hundreds of them."""

    pk: UUID
    run_id: str
    status: str
    verdict: str
    workspace_id: UUID
    backend_id: str
    suite_id: str
    started_at: datetime
    booted_at: datetime | None
    concurrency_group: str
    cancel_in_progress: bool

    @property
    def key(self) -> str:
        return str(self.pk)

    @property
    def group(self) -> tuple[str, str]:
        return str(self.workspace_id), self.concurrency_group

    @property
    def waits(self) -> bool:
        return self.status == ExecutionStatus.QUEUED and not self.verdict


@dataclass(frozen=True)
class QueueOfRuns:
    """Queued and active runs of all workspaces at one moment, by primary key as text."""

    rows: Mapping[str, QueuedRun]
    candidates: Sequence[Waiter]
    occupants: Sequence[Occupant]
    limits: PlaceLimits
    accounts: Mapping[str, Account]  # settled
    now: datetime

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Run id → number in the queue, from 1."""
        order = turns(self.candidates, self.accounts, self.limits.weights)
        return {self.rows[key].run_id: number for number, key in enumerate(order, start=1)}

    def place_queue(self) -> PlaceQueue:
        """Return the queue for places, without those that are superseded."""
        return PlaceQueue(
            [each for each in self.candidates if each.key not in self.superseded],
            self.occupants,
            self.limits,
            self.accounts,
            groups=self._holders,
        )

    def wait(self, key: str) -> Wait:
        """Return what a queued run waits for."""
        return wait_of(_candidate(key, self.rows[key]), self.occupants, self.limits, self._holders)

    def group_holder(self, key: str) -> str:
        """Return the id of the active run of the concurrency group of a run, "" without any."""
        holder = self._holders.get(self.rows[key].group)
        return holder.run_id if holder else ""

    def expected_starts(self) -> dict[str, float]:
        """Return in how many seconds runs are expected to start, by primary key as text.

        Nothing is expected before a run of these backends has ended.
        """
        durations = _durations({each.backend for each in self.occupants})
        if not durations.by_kind:
            return {}
        return expected_starts(
            self.candidates,
            self.occupants,
            self.limits,
            self.accounts,
            now=self.now.timestamp(),
            kinds={key: row.suite_id for key, row in self.rows.items()},
            durations=durations,
        )

    @cached_property
    def superseded(self) -> Mapping[str, str]:
        """Return the runs that newer ones of their groups cancel: key → id of the newer.

        Of those that wait only the newest stays. The active one ends if that says so: its launch
        does not see a run that another launch stores at the same moment.
        """
        newest: dict[tuple[str, str], QueuedRun] = {}
        for each in sorted(self.candidates, key=lambda one: (one.since, one.key)):
            if each.group:
                newest[each.workspace, each.group] = self.rows[each.key]
        found = dict[str, str]()
        for each in self.candidates:
            newer = newest.get((each.workspace, each.group))
            if newer is not None and newer.key != each.key:
                found[each.key] = newer.run_id
        for group, newer in newest.items():
            held = self._holders.get(group)
            if newer.cancel_in_progress and held and _is_canceled_by(held, newer):
                found[held.key] = newer.run_id
        return found

    @cached_property
    def _holders(self) -> Mapping[tuple[str, str], QueuedRun]:
        """The active runs of concurrency groups, by workspace and group."""
        held = (self.rows[each.key] for each in self.occupants)
        return {each.group: each for each in held if each.concurrency_group}


class _RecentStarts:
    """The expected starts of the last two seconds in this process: playing them is expensive."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._starts: dict[str, float] = {}
        self._played: QueueOfRuns | None = None

    def read(self, queue: QueueOfRuns, keys: Collection[str]) -> dict[str, float]:
        """Return `queue.expected_starts()`, or what it was a moment ago if that has these keys."""
        with self._lock:
            played = self._played
            age = (queue.now - played.now).total_seconds() if played else _PLAYED_FOR_S
            if played is None or age >= _PLAYED_FOR_S or not played.rows.keys() >= set(keys):
                self._starts, self._played, age = queue.expected_starts(), queue, 0.0
            return {key: max(0.0, start - age) for key, start in self._starts.items()}

    def forget(self) -> None:
        self._played = None


recent_starts: Final = _RecentStarts()


def read_run_queue() -> QueueOfRuns:
    """Return the queue as the store has it; two to four queries."""
    now = clock.now()
    waits = Q(status=ExecutionStatus.QUEUED.value)
    found = Execution.objects.filter(waits | Q(status__in=_ACTIVE), deleted_at=None)
    ordered = found.order_by("started_at", "pk").values_list(*QueuedRun._fields)
    rows = {row.key: row for row in map(QueuedRun._make, ordered)}
    candidates = [_candidate(key, row) for key, row in rows.items() if row.waits]
    occupants = [
        Occupant(key, str(row.workspace_id), row.backend_id, (row.booted_at or now).timestamp())
        for key, row in rows.items()
        if row.status != ExecutionStatus.QUEUED
    ]
    limits = run_limits()
    stored = stored_accounts(RUNS)
    accounts = settle_accounts(
        stored,
        Happened(occupants=occupants, ended=_ends(stored, {each.key for each in occupants})),
        lanes_of(candidates),
        now=now.timestamp(),
        weights=limits.weights,
    )
    return QueueOfRuns(rows, candidates, occupants, limits, accounts, now)


def wait_words(queue: QueueOfRuns, row: Execution, names: Mapping[str, str] | None = None) -> str:
    """Return what a queued run waits for; `names` are those of the workspaces to name, by id."""
    key = str(row.pk)
    return wait_phrase(
        queue.wait(key),
        backend=row.backend_label or row.backend_id,
        workspace=str(row.workspace_id),
        names=names or {},
        group_holder=queue.group_holder(key),
    )


def run_limits() -> PlaceLimits:
    """Return how many runs are active at once at most."""
    shares = workspace_shares()
    return PlaceLimits(
        total=conf.max_active(),
        backends={each.backend_id: each.max_concurrent_runs for each in backends()},
        workspaces={each.workspace_id: each.max_concurrent_runs for each in shares},
        weights={each.workspace_id: each.weight for each in shares},
    )


def stored_accounts(name: str) -> dict[str, Account]:
    """Return the accounts of a queue by backend, none before its first use."""
    stored = FairQueue.objects.filter(name=name).values_list("accounts", flat=True).first()
    return {scope: account_of(each) for scope, each in (stored or {}).items()}


def forecast_ratios(backend_id: str) -> list[float]:
    """Return by which factors the last runs of a backend started later than forecast."""
    started = Execution.objects.filter(
        backend_id=backend_id, expected_wait_ms__isnull=False, booted_at__isnull=False
    )
    columns = ("started_at", "booted_at", "expected_wait_ms")
    rows = started.order_by("-started_at").values_list(*columns)
    known: list[tuple[Any, Any, Any]] = list(rows[:RATIOS_USED])
    return [
        forecast_ratio((booted - accepted).total_seconds(), expected_ms / 1000)
        for accepted, booted, expected_ms in reversed(known)
    ]


def _candidate(key: str, row: QueuedRun) -> Waiter:
    return Waiter(
        key=key,
        workspace=str(row.workspace_id),
        backend=row.backend_id,
        since=row.started_at.timestamp(),
        group=row.concurrency_group,
    )


def _is_canceled_by(held: QueuedRun, newer: QueuedRun) -> bool:
    is_active = held.status == ExecutionStatus.BOOTING and not held.verdict
    return is_active and held.started_at <= newer.started_at


def _ends(accounts: Mapping[str, Account], held: set[str]) -> dict[str, float]:
    """Return when runs ended that had a place when the accounts were settled, by key."""
    gone = {UUID(key) for account in accounts.values() for key in account.held if key not in held}
    if not gone:
        return {}
    rows = Execution.objects.filter(pk__in=gone).values_list("pk", "finished_at")
    return {str(pk): ended.timestamp() for pk, ended in rows if ended}


def _durations(backend_ids: Iterable[str]) -> Durations:
    """Return how long the last runs of these backends were active, by suite."""
    ended = Execution.objects.filter(
        backend_id__in=list(backend_ids), booted_at__isnull=False, finished_at__isnull=False
    ).exclude(status=ExecutionStatus.CANCELED.value)
    rows = ended.order_by("-finished_at").values_list("suite_id", "booted_at", "finished_at")
    known: list[tuple[str, Any, Any]] = list(rows[:_HISTORY])
    by_kind: dict[str, list[float]] = defaultdict(list)
    for suite_id, booted, finished in known:
        by_kind[suite_id].append((finished - booted).total_seconds())
    return Durations(by_kind=by_kind)


def active_workspaces() -> int:
    """Return how many workspaces have runs whose steps may wait for a supervisor."""
    booting = Execution.objects.filter(status=ExecutionStatus.BOOTING.value, deleted_at=None)
    return len(Counter(booting.values_list("workspace_id", flat=True)))
