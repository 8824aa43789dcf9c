"""Places of steps: which of those that wait a supervisor may claim, within limits and fairly.

Tasks and tests take a place while they run; services, mocks and log lines do not, because what
waits for a place may need them. Claims that share places follow one another: they raise the version
of the backends' rows before anything else (decision 0057). While only one workspace has runs and
nothing is limited there is nothing to share, and claims touch no common row.
(reference: control-plane 14.4)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, Final
from uuid import UUID

from django.db.models import F, QuerySet

from apps.executions.domain.fair_share import (
    Account,
    Happened,
    Occupant,
    settle_accounts,
    with_given,
)
from apps.executions.domain.place_queue import PlaceLimits, PlaceQueue, Waiter, lanes_of
from apps.executions.domain.states import JobState
from apps.executions.models import FairQueue, Step
from apps.executions.selectors.run_queue import active_workspaces, stored_accounts
from apps.executions.services.admission import ensure_fair_queue
from apps.executions.services.run_aggregate import RunAggregate
from apps.platform_settings.api import backends, workspace_shares
from kernel import clock

PLACED_KINDS: Final = ("task", "test")
STEPS: Final = "steps"  # the queue that limits of workspaces need, over all backends
_SHARED_FOR_S: Final = 1.0  # how long the number of workspaces is taken as it was read
_OF_EACH: Final = 50  # waiting steps that are looked at, of each workspace beyond the oldest
StepKey = tuple[UUID, int]  # the run, and the index of the step


@dataclass(frozen=True, slots=True)
class WaitingStep:
    """A step that waits for a supervisor."""

    pk: UUID
    index: int
    queued_at: datetime
    kind: str
    workspace: str
    backend: str
    accepted_at: datetime

    @property
    def key(self) -> StepKey:
        return self.pk, self.index


class _WorkspaceCount:
    """Whether several workspaces have active runs, read at most once a second in this process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._read_at = float("-inf")
        self._several = False

    def are_several(self) -> bool:
        with self._lock:
            if time.monotonic() - self._read_at > _SHARED_FOR_S:
                self._several = active_workspaces() > 1
                self._read_at = time.monotonic()
            return self._several

    def forget(self) -> None:
        self._read_at = float("-inf")


workspace_count: Final = _WorkspaceCount()


def step_limits() -> PlaceLimits:
    """Return how many tasks and tests run at once at most."""
    shares = workspace_shares()
    return PlaceLimits(
        backends={
            each.backend_id: each.max_concurrent_steps
            for each in backends()
            if each.max_concurrent_steps
        },
        workspaces={
            each.workspace_id: each.max_concurrent_steps
            for each in shares
            if each.max_concurrent_steps
        },
        weights={each.workspace_id: each.weight for each in shares},
    )


def has_step_limits() -> bool:
    limits = step_limits()
    return bool(limits.backends or limits.workspaces)


def queue_names(served: Iterable[str]) -> list[str]:
    """Return the queues that a claim of these backends shares with others, none if it is alone."""
    limits = step_limits()
    shared = workspace_count.are_several()
    names = [
        f"{STEPS}:{backend}"
        for backend in served
        if shared or limits.workspaces or backend in limits.backends
    ]
    return sorted([STEPS, *names] if names and limits.workspaces else names)


def ensure_queues(names: Iterable[str]) -> None:
    """Create the rows of the queues; call it outside of the unit of work that locks them."""
    for name in names:
        ensure_fair_queue(name)


@dataclass
class StepQueue:
    """The places of some backends in a unit of work that has raised their versions."""

    names: tuple[str, ...]
    limits: PlaceLimits
    accounts: dict[str, Account] = field(default_factory=dict)
    given: list[Occupant] = field(default_factory=list)
    _places: PlaceQueue | None = None
    _by_key: dict[str, WaitingStep] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return self._places is not None

    def open(self, waiting: Iterable[WaitingStep], runs: Mapping[UUID, RunAggregate]) -> None:
        """Take who waits, and from the store who has a place; `runs` are newer than the store."""
        now = clock.now().timestamp()
        placed = [each for each in waiting if each.kind in PLACED_KINDS]
        self._by_key = {_text(each.key): each for each in placed}
        candidates = [_candidate(each) for each in placed]
        occupants = self._occupants(runs)
        stored: dict[str, Account] = {}
        for name in self.names:
            stored |= stored_accounts(name)
        ended = _ends(stored, {each.key for each in occupants})
        here = [each for each in occupants if f"{STEPS}:{each.backend}" in self.names]
        self.accounts = settle_accounts(
            stored,
            Happened(occupants=here, ended=ended),
            lanes_of(candidates),
            now=now,
            weights=self.limits.weights,
        )
        self._places = PlaceQueue(candidates, occupants, self.limits, self.accounts)

    def next_step(self) -> WaitingStep | None:
        """Return who gets the next place; the caller gives it, or drops who may not have it."""
        assert self._places is not None, "opened before"
        candidate = self._places.next_candidate()
        return None if candidate is None else self._by_key[candidate.key]

    def give(self, step: WaitingStep, now: datetime) -> None:
        assert self._places is not None, "opened before"
        self._places.take(_candidate(step))
        self.given.append(Occupant(_text(step.key), step.workspace, step.backend, now.timestamp()))

    def drop(self, step: WaitingStep) -> None:
        assert self._places is not None, "opened before"
        self._places.drop(_candidate(step))

    def save(self) -> None:
        """Store what the workspaces have consumed."""
        accounts = with_given(self.accounts, self.given)
        for name in self.names:
            backend = name.partition(":")[2]
            if backend and backend in accounts:
                stored = {backend: accounts[backend].as_json()}
                FairQueue.objects.filter(name=name).update(accounts=stored)

    def _occupants(self, runs: Mapping[UUID, RunAggregate]) -> list[Occupant]:
        running = Step.objects.filter(job_state=JobState.RUNNING.value, kind__in=PLACED_KINDS)
        if not self.limits.workspaces:
            running = running.filter(backend_id__in=[each.partition(":")[2] for each in self.names])
        rows = running.values_list(
            "execution_id", "index", "started_at", "backend_id", "execution__workspace_id"
        )
        since = {(row[0], row[1] - 1): row[2] for row in rows}
        found = [
            _occupant((row[0], row[1] - 1), str(row[4]), row[3], row[2])
            for row in rows
            if row[0] not in runs
        ]
        for pk, run in runs.items():
            execution = run.execution
            for index in run.open_jobs():
                if run.plan.nodes[index].kind in PLACED_KINDS:
                    began = since.get((pk, index)) or run.now
                    workspace, backend = str(execution.workspace_id), execution.backend_id
                    found.append(_occupant((pk, index), workspace, backend, began))
        return found


def lock_step_queue(names: Iterable[str]) -> StepQueue | None:
    """Make the claims that share these queues follow one another; None without any.

    It is the first write of its unit of work, so that two of them never wait for each other.
    """
    ordered = tuple(names)
    if not ordered:
        return None
    for name in ordered:
        FairQueue.objects.filter(name=name).update(version=F("version") + 1)
    return StepQueue(ordered, step_limits())


def steps_of_each_workspace(steps: QuerySet[Step, Step], limit: int) -> list[WaitingStep]:
    """Return the oldest waiting steps, and some of every workspace that has none among them."""
    found = oldest_steps(steps, limit)
    if len(found) < limit:
        return found
    known = {each.workspace for each in found}
    others = steps.exclude(execution__workspace_id__in=[UUID(each) for each in known])
    for workspace in set(others.values_list("execution__workspace_id", flat=True)[: _OF_EACH**2]):
        found += oldest_steps(others.filter(execution__workspace_id=workspace), _OF_EACH)
    return found


def oldest_steps(steps: QuerySet[Step, Step], limit: int) -> list[WaitingStep]:
    """Return the steps that were queued first."""
    rows: Any = steps.order_by("queued_at", "index").values_list(
        "execution_id", "index", "queued_at", "kind", "execution__workspace_id", "backend_id",
        "execution__started_at",
    )[:limit]  # fmt: skip
    return [
        WaitingStep(pk, number - 1, queued_at, kind, str(workspace), backend, accepted_at)
        for pk, number, queued_at, kind, workspace, backend, accepted_at in rows
    ]


def waiting_step_of(run: RunAggregate, index: int) -> WaitingStep:
    """Return a step that was queued in this unit of work."""
    execution = run.execution
    return WaitingStep(
        execution.pk,
        index,
        run.now,
        run.plan.nodes[index].kind,
        str(execution.workspace_id),
        execution.backend_id,
        execution.started_at,
    )


def _candidate(step: WaitingStep) -> Waiter:
    """Of one workspace the oldest run goes first, so that its runs end one after the other."""
    return Waiter(
        key=_text(step.key),
        workspace=step.workspace,
        backend=step.backend,
        since=step.accepted_at.timestamp(),
        order=step.queued_at.timestamp(),
    )


def _occupant(key: StepKey, workspace: str, backend: str, since: datetime | None) -> Occupant:
    return Occupant(_text(key), workspace, backend, (since or clock.now()).timestamp())


def _text(key: StepKey) -> str:
    return f"{key[0]}/{key[1]}"


def _ends(accounts: Mapping[str, Account], held: set[str]) -> dict[str, float]:
    """Return when steps ended that had a place when the accounts were settled, by key."""
    gone = [key for account in accounts.values() for key in account.held if key not in held]
    if not gone:
        return {}
    wanted = {UUID(key.partition("/")[0]) for key in gone}
    rows = Step.objects.filter(execution_id__in=wanted, finished_at__isnull=False)
    ends = {
        _text((pk, number - 1)): ended.timestamp()
        for pk, number, ended in rows.values_list("execution_id", "index", "finished_at")
        if ended
    }
    now = clock.now().timestamp()  # what ends in this very unit of work has no time in the store
    return {key: ends.get(key, now) for key in gone}
