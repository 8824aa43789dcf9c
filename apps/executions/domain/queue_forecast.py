"""When a queued run is expected to start: an interval that 80 % of such runs start in.

The queue is played forward with mean durations, which gives one moment. How far such moments were
off for the last runs of the backend gives the interval around it (split conformal prediction,
decision 0057).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor
from statistics import fmean
from typing import Final

from apps.executions.domain.fair_share import (
    Account,
    Happened,
    Occupant,
    add_given,
    settle_accounts,
)
from apps.executions.domain.place_queue import PlaceLimits, PlaceQueue, Waiter, lanes_of

MAX_EVENTS: Final = 400  # that are played forward; what starts later has no forecast
UNKNOWN_S: Final = 60.0  # how long a run lasts that nothing is known of
RATIOS_USED: Final = 200
_COVERAGE: Final = 0.8
_SMOOTHING_S: Final = 1.0  # keeps the ratio of two short times near 1
# What is assumed before a backend has a history: runs start between half and twice the forecast.
_PRIOR: Final = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """How long the last runs lasted, in seconds, by kind (the suite)."""

    by_kind: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def mean(self, kind: str) -> float:
        return fmean(self._history(kind) or (UNKNOWN_S,))

    def remaining(self, kind: str, elapsed: float) -> float:
        """Return how long one goes on that has lasted for `elapsed`: as those that lasted longer.

        One that outlasts all of them is expected to need half of its time again.
        """
        longer = [each - elapsed for each in self._history(kind) if each > elapsed]
        return fmean(longer) if longer else max(elapsed / 2, 1.0)

    def _history(self, kind: str) -> Sequence[float]:
        return self.by_kind.get(kind) or [each for all_ in self.by_kind.values() for each in all_]


def expected_starts(  # noqa: PLR0913 - the state of a queue, and what is known of its runs
    candidates: Sequence[Waiter],
    occupants: Collection[Occupant],
    limits: PlaceLimits,
    accounts: Mapping[str, Account],
    *,
    now: float,
    kinds: Mapping[str, str],
    durations: Durations,
) -> dict[str, float]:
    """Return in how many seconds each candidate is expected to start, by key.

    `kinds`: of candidates and occupants, by key. Concurrency groups are not played forward.
    """
    running = {each.key: each for each in occupants}
    ends = [
        (now + durations.remaining(kinds.get(each.key, ""), now - each.since), each.key)
        for each in occupants
    ]
    heapq.heapify(ends)
    plain = [replace(each, group="") for each in candidates]
    queue, state = PlaceQueue(plain, occupants, limits, accounts), dict(accounts)
    starts, at, ended = dict[str, float](), now, dict[str, float]()
    for _ in range(MAX_EVENTS):
        state = settle_accounts(
            state,
            Happened(occupants=running.values(), ended=ended),
            lanes_of(queue.heads()),
            now=at,
            weights=limits.weights,
        )
        queue.replace_accounts(state)
        taken = list(queue.take_all())
        for each in taken:
            starts[each.key] = at - now
            running[each.key] = Occupant(each.key, each.workspace, each.backend, at)
            heapq.heappush(ends, (at + durations.mean(kinds.get(each.key, "")), each.key))
        state = add_given(state, [running[each.key] for each in taken])
        if not queue.heads() or not ends:
            break
        at, key = heapq.heappop(ends)
        ended = {key: at}
        queue.release(running.pop(key))
    return starts


def start_interval(expected_s: float, ratios: Iterable[float]) -> tuple[float, float]:
    """Return the earliest and latest start in seconds, given how far forecasts were off before.

    `ratios` are `forecast_ratio`s, the newest last.
    """
    known = sorted([*_PRIOR, *ratios][-RATIOS_USED:])
    tail = (1 - _COVERAGE) / 2
    low = known[max(0, floor(tail * (len(known) + 1)) - 1)]
    high = known[min(len(known) - 1, ceil((1 - tail) * (len(known) + 1)) - 1)]
    base = expected_s + _SMOOTHING_S
    return max(0.0, base * low - _SMOOTHING_S), max(0.0, base * high - _SMOOTHING_S)


def forecast_ratio(actual_s: float, expected_s: float) -> float:
    """Return by which factor a run started later than it was expected to."""
    return (max(0.0, actual_s) + _SMOOTHING_S) / (max(0.0, expected_s) + _SMOOTHING_S)
