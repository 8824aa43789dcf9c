"""Weighted fair shares of places between workspaces: start-time fair queuing by consumed time.

Each workspace has a tag: the seconds for which it had places, divided by its weight. The next place
goes to the workspace with the lowest tag. A workspace that comes back starts at the virtual time,
the lowest tag of those that are active, so that it neither saves up nor owes what it did not use
(decision 0057). Times are seconds since the epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

EVERYWHERE: Final = ""  # the account of all backends together, beside that of each
FIRST_QUANTUM_S: Final = 10.0
_SHORTEST_QUANTUM_S: Final = 0.01
_LEARNING_RATE: Final = 0.05  # of one place that ended, in the mean of all


@dataclass(frozen=True, slots=True)
class Occupant:
    """What has a place: a run or a step, since when, and where."""

    key: str
    workspace: str
    backend: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the workspaces have consumed, as of `settled_at`.

    `quantum_s` is the mean time for which a place is held: what a place that was just given is
    expected to cost. `held` are the places known at `settled_at`, by key: (workspace, since).
    `last_given`: when each workspace got its last place; of equal ones the longest ago is next.
    """

    tags: Mapping[str, float] = field(default_factory=dict)
    last_given: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    virtual_time: float = 0.0
    settled_at: float = 0.0
    quantum_s: float = FIRST_QUANTUM_S

    def as_json(self) -> dict[str, object]:
        return {
            "tags": dict(self.tags),
            "lastGiven": dict(self.last_given),
            "held": {key: list(place) for key, place in self.held.items()},
            "virtualTime": self.virtual_time,
            "settledAt": self.settled_at,
            "quantumS": self.quantum_s,
        }


def account_of(stored: Mapping[str, Any]) -> Account:
    """Return the account that `Account.as_json` wrote; an empty one of an empty mapping."""
    if not stored:
        return Account()
    return Account(
        tags=dict(stored["tags"]),
        last_given=dict(stored["lastGiven"]),
        held={key: (place[0], place[1]) for key, place in stored["held"].items()},
        virtual_time=stored["virtualTime"],
        settled_at=stored["settledAt"],
        quantum_s=stored["quantumS"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What happened since an account was settled.

    `occupants`: who has a place now. `ended`: when places in `Account.held` that nobody has any
    longer were freed, by key. `waiting`: since when each workspace waits that does.
    """

    occupants: Collection[Occupant]
    ended: Mapping[str, float]
    waiting: Mapping[str, float] = field(default_factory=dict)


def settle_account(
    account: Account, happened: Happened, *, now: float, weights: Mapping[str, int]
) -> Account:
    """Return the account after the time until `now` was charged to those who had places.

    A workspace that came meanwhile starts at the virtual time of that moment.
    """
    moments = {
        since
        for workspace, since in happened.waiting.items()
        if workspace not in account.tags and account.settled_at < since < now
    }
    for moment in sorted(moments):
        account = _settle_at(account, happened, moment, weights)
    return _settle_at(account, happened, now, weights)


def _settle_at(
    account: Account, happened: Happened, now: float, weights: Mapping[str, int]
) -> Account:
    tags, since_last = defaultdict(float, account.tags), account.settled_at
    begun = {
        each.key: (each.workspace, each.since) for each in happened.occupants if each.since <= now
    }
    held, quantum = dict[str, tuple[str, float]](), account.quantum_s
    for key, (workspace, since) in (dict(account.held) | begun).items():
        end = inf if key in begun else happened.ended.get(key, since_last)
        until = min(end, now)
        tags[workspace] += max(0.0, until - max(since, since_last)) / weights.get(workspace, 1)
        if end > now:
            held[key] = (workspace, since)
        elif key in happened.ended:
            quantum += _LEARNING_RATE * (max(_SHORTEST_QUANTUM_S, end - since) - quantum)
    came = {workspace for workspace, since in happened.waiting.items() if since <= now}
    return _level(replace(account, held=held, settled_at=now, quantum_s=quantum), tags, came)


def _level(account: Account, tags: Mapping[str, float], waiting: Collection[str]) -> Account:
    """Raise the virtual time, level who has come, and forget who left without a debt."""
    active = {workspace for workspace, _ in account.held.values()} | set(waiting)
    known = [tags[workspace] for workspace in active if workspace in account.tags]
    virtual_time = max(account.virtual_time, min(known, default=max(tags.values(), default=0.0)))
    kept = {
        workspace: max(tag, virtual_time) if workspace in active else tag
        for workspace, tag in tags.items()
        if workspace in active or tag > virtual_time
    }
    tags_now = dict.fromkeys(active, virtual_time) | kept
    last_given = dict(account.last_given)
    for workspace, since in account.held.values():
        last_given[workspace] = max(since, last_given.get(workspace, 0.0))
    last_given = {each: at for each, at in last_given.items() if each in tags_now}
    return replace(account, tags=tags_now, last_given=last_given, virtual_time=virtual_time)


def settle_accounts(
    accounts: Mapping[str, Account],
    happened: Happened,
    lanes: Mapping[tuple[str, str], float],
    *,
    now: float,
    weights: Mapping[str, int],
) -> dict[str, Account]:
    """Return the settled account of each backend, and of all together.

    `lanes`: since when somebody waits, by backend and workspace, in the place of
    `happened.waiting`.
    """
    places: dict[str, list[Occupant]] = defaultdict(list)
    waiting: dict[str, dict[str, float]] = defaultdict(dict)
    for each in happened.occupants:
        for scope in (each.backend, EVERYWHERE):
            places[scope].append(each)
    for (backend, workspace), since in lanes.items():
        for scope in (backend, EVERYWHERE):
            waiting[scope][workspace] = min(since, waiting[scope].get(workspace, since))
    return {
        scope: settle_account(
            accounts.get(scope, Account()),
            replace(happened, occupants=places[scope], waiting=waiting[scope]),
            now=now,
            weights=weights,
        )
        for scope in list(accounts.keys() | places.keys() | waiting.keys())
    }


def add_given(accounts: Mapping[str, Account], given: Collection[Occupant]) -> dict[str, Account]:
    """Return the accounts with the places that were given since they were settled."""
    made = dict(accounts)
    for each in given:
        for scope in (each.backend, EVERYWHERE):
            account = made.get(scope, Account())
            place = {each.key: (each.workspace, each.since)}
            made[scope] = replace(
                account,
                held={**account.held, **place},
                last_given={**account.last_given, each.workspace: each.since},
            )
    return made


class Shares:
    """The turns that follow from a settled account; `give` counts a place that was just given."""

    def __init__(self, account: Account, weights: Mapping[str, int]) -> None:
        self._account = account
        self._weights = weights
        self._last_given = dict(account.last_given)
        self._committed: dict[str, float] = defaultdict(float)
        for workspace, since in account.held.values():
            elapsed = account.settled_at - since
            self._committed[workspace] += max(0.0, account.quantum_s - elapsed)

    def give(self, workspace: str) -> None:
        self._committed[workspace] += self._account.quantum_s
        self._last_given[workspace] = self._account.settled_at

    def turn(self, workspace: str) -> tuple[float, float]:
        """Return what comes first when it is lowest.

        It is the tag with the expected cost of the places held now, then the time of the last one.
        """
        tag = self._account.tags.get(workspace, self._account.virtual_time)
        committed = self._committed.get(workspace, 0.0) / self._weights.get(workspace, 1)
        return tag + committed, self._last_given.get(workspace, 0.0)
