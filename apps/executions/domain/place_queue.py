"""The queue for places: who is next, within all limits, and what the others wait for.

One set of rules serves runs, which wait for admission, and steps, which wait for a supervisor. All
of it is pure: the state of the store comes in, a decision goes out.
(reference: control-plane 14.4)
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from apps.executions.domain.fair_share import EVERYWHERE, Account, Occupant, Shares

_UNLIMITED: Final = 10**9
Lane = tuple[str, str]  # backend, workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """What waits for a place; `since` decides within a workspace, then `order`, then the key.

    At most one of a workspace's `group` has a place at a time.
    """

    key: str
    workspace: str
    backend: str
    since: float
    order: float = 0.0
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceLimits:
    """How many places there are at once: in all, by backend, by workspace; absent or 0: any number.

    `weights` of workspaces are 1 where they are absent.
    """

    total: int = 0
    backends: Mapping[str, int] = field(default_factory=dict)
    workspaces: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)


class WaitKind(StrEnum):
    GROUP = "group"
    BACKEND = "backend"
    WORKSPACE = "workspace"
    TOTAL = "total"
    TURN = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a candidate waits for: `used` of `limit` places, by workspace."""

    kind: WaitKind
    limit: int = 0
    used: Mapping[str, int] = field(default_factory=dict)


class PlaceQueue:
    """Candidates in the order of their turns. `take` what `next_candidate` returns, or `drop` it.

    `accounts` are settled, by backend; that of EVERYWHERE decides between backends.
    """

    def __init__(
        self,
        candidates: Iterable[Waiter],
        occupants: Collection[Occupant],
        limits: PlaceLimits,
        accounts: Mapping[str, Account],
        *,
        groups: Collection[tuple[str, str]] = (),
    ) -> None:
        self._limits = limits
        self._groups = set(groups)  # of what has a place: (workspace, group)
        self._total = len(occupants)
        self._by_backend = Counter(each.backend for each in occupants)
        self._by_workspace = Counter(each.workspace for each in occupants)
        self._lanes: dict[Lane, deque[Waiter]] = defaultdict(deque)
        for each in sorted(candidates, key=_age):
            self._lanes[each.backend, each.workspace].append(each)
        self.replace_accounts(accounts)

    def replace_accounts(self, accounts: Mapping[str, Account]) -> None:
        """Replace the accounts by those of a later moment, which know of every place taken here."""
        scopes = {backend for backend, _ in self._lanes} | {EVERYWHERE}
        self._shares = {
            scope: Shares(accounts.get(scope, Account()), self._limits.weights) for scope in scopes
        }

    def heads(self) -> list[Waiter]:
        """Return the oldest candidate of each workspace on each backend."""
        return [lane[0] for lane in self._lanes.values()]

    def first_lanes(self, count: int) -> list[Lane]:
        """Return of each backend the `count` workspaces that come first and may have a place."""
        found: dict[str, list[tuple[tuple[float, float], tuple[float, float, str], Lane]]]
        found = defaultdict(list)
        for lane, candidates in self._lanes.items():
            if self._has_room(*lane):
                turn = self._shares[lane[0]].turn(lane[1])
                found[lane[0]].append((turn, _age(candidates[0]), lane))
        return [lane for entries in found.values() for _, _, lane in sorted(entries)[:count]]

    def next_candidate(self) -> Waiter | None:
        """Return who gets the next place; None if nobody who waits may have one."""
        if self._total >= (self._limits.total or _UNLIMITED):
            return None
        first: dict[str, tuple[tuple[float, float], tuple[float, float, str], Waiter]] = {}
        for (backend, workspace), lane in self._lanes.items():
            head = next((each for each in lane if not self._is_grouped(each)), None)
            if head is None or not self._has_room(backend, workspace):
                continue
            entry = (self._shares[backend].turn(workspace), _age(head), head)
            if backend not in first or entry[:2] < first[backend][:2]:
                first[backend] = entry
        everywhere = self._shares[EVERYWHERE]
        heads = [head for _, _, head in first.values()]
        return min(
            heads, key=lambda each: (everywhere.turn(each.workspace), _age(each)), default=None
        )

    def take(self, candidate: Waiter) -> None:
        """Give the candidate its place."""
        self.drop(candidate)
        self._total += 1
        self._by_backend[candidate.backend] += 1
        self._by_workspace[candidate.workspace] += 1
        for scope in (candidate.backend, EVERYWHERE):
            self._shares[scope].give(candidate.workspace)
        if candidate.group:
            self._groups.add((candidate.workspace, candidate.group))

    def release(self, occupant: Occupant) -> None:
        """Free the place of one that has ended; its group is not followed."""
        self._total -= 1
        self._by_backend[occupant.backend] -= 1
        self._by_workspace[occupant.workspace] -= 1

    def drop(self, candidate: Waiter) -> None:
        """Leave the candidate out: it may not have a place now, for reasons of its own."""
        lane = self._lanes[candidate.backend, candidate.workspace]
        lane.remove(candidate)
        if not lane:
            del self._lanes[candidate.backend, candidate.workspace]

    def take_all(self) -> Iterator[Waiter]:
        """Yield everyone who gets a place now, and give it."""
        while (candidate := self.next_candidate()) is not None:
            self.take(candidate)
            yield candidate

    def _is_grouped(self, each: Waiter) -> bool:
        return bool(each.group) and (each.workspace, each.group) in self._groups

    def _has_room(self, backend: str, workspace: str) -> bool:
        of_backend = self._limits.backends.get(backend) or _UNLIMITED
        of_workspace = self._limits.workspaces.get(workspace) or _UNLIMITED
        return (
            self._by_backend[backend] < of_backend and self._by_workspace[workspace] < of_workspace
        )


def lanes_of(candidates: Iterable[Waiter]) -> dict[tuple[str, str], float]:
    """Return since when somebody waits, by backend and workspace, for `settle_accounts`."""
    lanes: dict[tuple[str, str], float] = {}
    for each in candidates:
        came, lane = max(each.since, each.order), (each.backend, each.workspace)
        lanes[lane] = min(came, lanes.get(lane, came))
    return lanes


def turns(
    candidates: Sequence[Waiter], accounts: Mapping[str, Account], weights: Mapping[str, int]
) -> list[str]:
    """Return the keys in the order of their turns, as if every limit were one place at a time."""
    plain = [replace(each, group="") for each in candidates]
    queue = PlaceQueue(plain, (), PlaceLimits(weights=weights), accounts)
    return [each.key for each in queue.take_all()]


def wait_of(
    candidate: Waiter,
    occupants: Collection[Occupant],
    limits: PlaceLimits,
    groups: Collection[tuple[str, str]] = (),
) -> Wait:
    """Return what the candidate waits for: the nearest limit that is reached, else its turn."""
    if candidate.group and (candidate.workspace, candidate.group) in groups:
        return Wait(kind=WaitKind.GROUP)
    here = Counter(each.workspace for each in occupants if each.backend == candidate.backend)
    everywhere = Counter(each.workspace for each in occupants)
    own = {candidate.workspace: everywhere[candidate.workspace]}
    checks = (
        (WaitKind.BACKEND, limits.backends.get(candidate.backend, 0), here),
        (WaitKind.WORKSPACE, limits.workspaces.get(candidate.workspace, 0), own),
        (WaitKind.TOTAL, limits.total, everywhere),
    )
    for kind, limit, used in checks:
        if limit and sum(used.values()) >= limit:
            return Wait(kind=kind, limit=limit, used=dict(used))
    return Wait(kind=WaitKind.TURN)


def _age(candidate: Waiter) -> tuple[float, float, str]:
    return candidate.since, candidate.order, candidate.key
