"""Places of steps: which of those that wait a supervisor may claim, within limits and fairly.

Tasks and tests take a place while they run; services, mocks and log lines do not, because what
waits for a place may need them. Claims that share places follow one another: they raise the version
of the backends' rows before anything else (decision 0057). While only one workspace has runs and
nothing is limited there is nothing to share, and claims touch no common row.
(reference: control-plane 14.4)
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from threading import Lock
from typing import Final
from uuid import UUID

from django.db.models import F, QuerySet

from apps.executions.domain.fair_share import (
    Account,
    Happened,
    Occupant,
    add_given,
    settle_accounts,
)
from apps.executions.domain.place_queue import Lane, PlaceLimits, PlaceQueue, Waiter, lanes_of
from apps.executions.domain.states import JobState
from apps.executions.models import FairQueue, Step
from apps.executions.selectors.run_queue import active_workspaces, stored_accounts
from apps.executions.selectors.waiting_steps import (
    PLACED_KINDS,
    StepKey,
    WaitingStep,
    lanes_of_steps,
    oldest_steps,
    steps_of_lanes,
    steps_without_place,
)
from apps.executions.services.admission import ensure_fair_queue
from apps.executions.services.run_aggregate import RunAggregate
from apps.platform_settings.api import backends, workspace_shares
from kernel import clock

STEPS: Final = "steps"  # the queue that limits of workspaces need, over all backends
_SPARE_STEPS: Final = 64  # seen beyond those wanted: some turn out not to be for this supervisor
_SPARE_LANES: Final = 4
_SHARED_FOR_S: Final = 1.0  # how long the number of workspaces is taken as it was read


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
    _occupied: list[Occupant] = field(default_factory=list)
    _is_open: bool = False

    def open(self, lanes: Mapping[Lane, float], runs: Mapping[UUID, RunAggregate]) -> None:
        """Settle the accounts: `lanes` has since when somebody waits, the store who has a place.

        `runs` are newer than the store.
        """
        now = clock.now().timestamp()
        self._occupied = self._occupants(runs)
        stored: dict[str, Account] = {}
        for name in self.names:
            stored |= stored_accounts(name)
        ended = _ends(stored, {each.key for each in self._occupied})
        here = [each for each in self._occupied if f"{STEPS}:{each.backend}" in self.names]
        self.accounts = settle_accounts(
            stored,
            Happened(occupants=here, ended=ended),
            lanes,
            now=now,
            weights=self.limits.weights,
        )
        self._is_open = True

    def first_lanes(self, lanes: Mapping[Lane, float], count: int) -> list[Lane]:
        """Return of each backend the `count` lanes that come first and may have a place."""
        heads = [
            Waiter(key="", workspace=workspace, backend=backend, since=since)
            for (backend, workspace), since in lanes.items()
        ]
        return self._place_queue(heads).first_lanes(count)

    def choose(self, waiting: Iterable[WaitingStep], count: int) -> list[WaitingStep]:
        """Return up to `count` steps that may start now: first those that need no place.

        Nothing is given: the caller may choose again without some of them.
        """
        steps = list(waiting)
        chosen = [each for each in steps if not each.takes_place][:count]
        by_key = {_text(each.key): each for each in steps if each.takes_place}
        if len(chosen) < count and by_key:
            queue = self._place_queue([candidate_of(each) for each in by_key.values()])
            turns = islice(queue.take_all(), count - len(chosen))
            chosen += [by_key[each.key] for each in turns]
        return chosen

    def give(self, step: WaitingStep, now: datetime) -> None:
        if step.takes_place:
            place = Occupant(_text(step.key), step.workspace, step.backend, now.timestamp())
            self.given.append(place)

    def save(self) -> None:
        """Store what the workspaces have consumed, if it was opened."""
        if not self._is_open:
            return
        accounts = add_given(self.accounts, self.given)
        for name in self.names:
            backend = name.partition(":")[2]
            if backend and backend in accounts:
                stored = {backend: accounts[backend].as_json()}
                FairQueue.objects.filter(name=name).update(accounts=stored)

    def _place_queue(self, candidates: Iterable[Waiter]) -> PlaceQueue:
        return PlaceQueue(candidates, self._occupied, self.limits, self.accounts)

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


def read_waiting_steps(
    queue: StepQueue,
    steps: QuerySet[Step, Step],
    limit: int,
    *,
    runs: Mapping[UUID, RunAggregate],
    fresh: Collection[WaitingStep],
) -> list[WaitingStep]:
    """Open the queue and return those of the `steps` that a claim of `limit` may need to see.

    One query if these are few. Otherwise those that need no place, and of each backend those of
    the workspaces that come first, so that none of them hides another. `fresh` were queued in this
    unit of work, in which `runs` are newer than the store.
    """
    window = limit + _SPARE_STEPS
    found = oldest_steps(steps, window)
    if len(found) < window:
        if found or fresh:
            queue.open(_lanes([*found, *fresh]), runs)
        return found
    lanes = lanes_of_steps(steps)
    for lane, since in _lanes(fresh).items():
        lanes.setdefault(lane, since)
    queue.open(lanes, runs)
    first = queue.first_lanes(lanes, limit + _SPARE_LANES)
    return steps_without_place(steps, window) + steps_of_lanes(steps, first, window)


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


def candidate_of(step: WaitingStep) -> Waiter:
    """Return a step as a candidate for a place.

    The oldest run of a workspace goes first, so that its runs end one after the other.
    """
    return Waiter(
        key=_text(step.key),
        workspace=step.workspace,
        backend=step.backend,
        since=step.accepted_at.timestamp(),
        order=step.queued_at.timestamp(),
    )


def _lanes(steps: Iterable[WaitingStep]) -> dict[Lane, float]:
    return lanes_of(candidate_of(each) for each in steps if each.takes_place)


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
