"""A queue of places, played from arrivals to ends with the rules of the store's queue."""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from apps.executions.domain.fair_share import (
    Account,
    Happened,
    Occupant,
    add_given,
    settle_accounts,
)
from apps.executions.domain.place_queue import PlaceLimits, PlaceQueue, Waiter, lanes_of
from apps.executions.domain.queue_forecast import (
    RATIOS_USED,
    Durations,
    expected_starts,
    forecast_ratio,
    start_interval,
)


@dataclass(frozen=True)
class Arrival:
    key: str
    at: float
    workspace: str
    lasts: float
    backend: str = "b"
    kind: str = ""


@dataclass
class Simulation:
    """Plays arrivals; `started` has when each began, `intervals` what was forecast of it."""

    limits: PlaceLimits
    forecast_each: int = 0  # of the arrivals that wait, one in so many gets a forecast
    started: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    served: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # seconds
    most_at_once: Counter[str] = field(default_factory=Counter)
    idle_while_waiting: int = 0

    def play(self, arrivals: Sequence[Arrival], *, until: float = float("inf")) -> None:
        self._by_key = {each.key: each for each in arrivals}
        self._waiting: dict[str, Waiter] = {}
        self._running: dict[str, Occupant] = {}
        self._accounts: dict[str, Account] = {}
        self._lasted: dict[str, deque[float]] = {}
        self._ratios: deque[float] = deque(maxlen=RATIOS_USED)
        self._expected: dict[str, tuple[float, float]] = {}
        pending = deque(sorted(arrivals, key=lambda each: each.at))
        ends: list[tuple[float, str]] = []
        turn = 0
        while pending or ends:
            arrives = bool(pending) and (not ends or pending[0].at < ends[0][0])
            now = pending[0].at if arrives else ends[0][0]
            if now > until:
                break
            ended: dict[str, float] = {}
            new: Arrival | None = None
            if arrives:
                new = pending.popleft()
                self._waiting[new.key] = Waiter(
                    key=new.key, workspace=new.workspace, backend=new.backend, since=now
                )
            else:
                _, key = heapq.heappop(ends)
                ended[key] = now
                self._end(self._running.pop(key), now)
            if new is None or self._may_run(new.backend, new.workspace):
                self._settle(now, ended)
                for each in self._admit(now):
                    heapq.heappush(ends, (now + self._by_key[each].lasts, each))
            if new is not None and new.key in self._waiting and self.forecast_each:
                turn += 1
                self._forecast(new.key, now, chosen=turn % self.forecast_each == 0)

    def wait(self, key: str) -> float:
        return self.started[key] - self._by_key[key].at

    def _settle(self, now: float, ended: dict[str, float]) -> None:
        self._accounts = settle_accounts(
            self._accounts,
            Happened(occupants=list(self._running.values()), ended=ended),
            lanes_of(self._waiting.values()),
            now=now,
            weights=self.limits.weights,
        )

    def _admit(self, now: float) -> list[str]:
        queue = PlaceQueue(
            self._waiting.values(), list(self._running.values()), self.limits, self._accounts
        )
        taken = [each.key for each in queue.take_all()]
        for key in taken:
            each = self._waiting.pop(key)
            self._running[key] = Occupant(key, each.workspace, each.backend, now)
            self.started[key] = now
            if key in self._expected:
                at, expected = self._expected.pop(key)
                self._ratios.append(forecast_ratio(now - at, expected))
        self._accounts = add_given(self._accounts, [self._running[key] for key in taken])
        self._check()
        return taken

    def _check(self) -> None:
        at_once = Counter(each.workspace for each in self._running.values())
        at_once.update(f"backend {each.backend}" for each in self._running.values())
        at_once["total"] = len(self._running)
        self.most_at_once |= at_once
        lanes = {(each.backend, each.workspace) for each in self._waiting.values()}
        self.idle_while_waiting += any(self._may_run(*lane) for lane in lanes)

    def _may_run(self, backend: str, workspace: str) -> bool:
        running = list(self._running.values())
        limits = (
            (self.limits.total, len(running)),
            (
                self.limits.backends.get(backend, 0),
                sum(one.backend == backend for one in running),
            ),
            (
                self.limits.workspaces.get(workspace, 0),
                sum(one.workspace == workspace for one in running),
            ),
        )
        return all(not limit or used < limit for limit, used in limits)

    def _end(self, each: Occupant, now: float) -> None:
        self.served[each.workspace] += now - each.since
        kind = self._by_key[each.key].kind
        self._lasted.setdefault(kind, deque(maxlen=50)).append(now - each.since)

    def _forecast(self, key: str, now: float, *, chosen: bool) -> None:
        if not chosen:
            return
        self._settle(now, {})
        starts = expected_starts(
            list(self._waiting.values()),
            list(self._running.values()),
            self.limits,
            self._accounts,
            now=now,
            kinds={each: self._by_key[each].kind for each in (*self._waiting, *self._running)},
            durations=Durations(by_kind=self._lasted),
        )
        if key in starts:
            self._expected[key] = (now, starts[key])
            low, high = start_interval(starts[key], self._ratios)
            self.intervals[key] = (now + low, now + high)

    def coverage(self, *, skip: int = 0) -> float:
        """The part of the forecast intervals that the start was in, but for the first ones."""
        known = [key for key in self.intervals if key in self.started][skip:]
        inside = sum(
            self.intervals[key][0] <= self.started[key] <= self.intervals[key][1] for key in known
        )
        return inside / len(known)


def alone(arrivals: Iterable[Arrival], places: int) -> dict[str, float]:
    """The waits of these arrivals with so many places of their own, first come, first served."""
    free = [0.0] * places
    waits = {}
    for each in sorted(arrivals, key=lambda one: one.at):
        begins = max(each.at, heapq.heappop(free))
        waits[each.key] = begins - each.at
        heapq.heappush(free, begins + each.lasts)
    return waits


def steady(
    rng: random.Random, workspace: str, count: int, *, every_s: float, mean_s: float, kind: str = ""
) -> list[Arrival]:
    """Arrivals of a Poisson process whose places are held for a gamma-distributed time."""
    at, made = 0.0, []
    for index in range(count):
        at += rng.expovariate(1 / every_s)
        lasts = rng.gammavariate(4.0, mean_s / 4.0)
        made.append(Arrival(f"{workspace}-{index}", at, workspace, lasts, kind=kind))
    return made
