"""Drift: what differs from the baseline, and when it may be healed.

The baseline is the ledger's `applied`, as digests. (reference: sync-stack 6.2, 6.5)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from sync_stack.core.ledger import Ledger, TargetState, digest, digester
from sync_stack.core.sink import Capabilities, Live, Owner

FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 300.0
CLEAN_TO_RESET: Final = 3
FAILURES_TO_GIVE_NOTICE: Final = 5
FLAPPING_EPISODES: Final = 5
FLAPPING_WITHIN: Final = timedelta(minutes=30)
FLAPPING_INTERVALS: Final = 10
CLEAN_TO_CALM: Final = 10


class Difference(StrEnum):
    REMOVED = "removed"
    CHANGED = "changed"
    ADDED = "added"


class Episode(StrEnum):
    """The state of a drift record."""

    OPEN = "open"
    HEALING = "healing"
    HEALED = "healed"
    RESOLVED = "resolved"
    UNHEALED = "unhealed"
    SUPERSEDED = "superseded"


class TargetStatus(StrEnum):
    UNKNOWN = "unknown"
    SYNCING = "syncing"
    IN_SYNC = "in_sync"
    DRIFTED = "drifted"
    HEALING = "healing"
    FLAPPING = "flapping"
    INCONSISTENT = "inconsistent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedChange:
    """One key that differs. A digest is empty where there is no value to be read."""

    key: str
    kind: Difference
    secret: bool = False
    expected_digest: str = ""
    actual_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`changes` by key; true when there is drift. `foreign` is counted, never drift."""

    changes: tuple[ObservedChange, ...] = ()
    foreign: tuple[str, ...] = ()
    foreign_count: int = 0

    def __bool__(self) -> bool:
        return bool(self.changes)

    def keys(self, kind: Difference) -> tuple[str, ...]:
        return tuple(change.key for change in self.changes if change.kind is kind)

    @property
    def counts(self) -> dict[str, int]:
        found = {kind.value: len(self.keys(kind)) for kind in Difference}
        return found | {"foreign": self.foreign_count}


def compare(
    ledger: Ledger, live: Live, sink: Capabilities, owner: Owner, digest_key: bytes
) -> Comparison:
    """Compare the live state with `applied`; a target that was never applied has no drift.

    Keys of a missing file are not compared: Git has no value for them that a heal could restore.
    """
    applied = ledger.applied
    if applied is None:
        return Comparison()
    changes = list(_of_baseline(applied, live, sink, digest_key))
    if sink.whole_records:
        changes += _added_keys(ledger, applied, live, digest_key)
    foreign = set(live.foreign) | _of_next_sync(ledger, live, owner)
    return Comparison(
        changes=tuple(sorted(changes, key=lambda change: change.key)),
        foreign=tuple(sorted(foreign)),
        foreign_count=len(foreign) + live.foreign_count,
    )


def _of_baseline(
    applied: TargetState, live: Live, sink: Capabilities, digest_key: bytes
) -> Iterator[ObservedChange]:
    digest_of, missing = digester(digest_key), applied.missing_files()
    for key, entry in applied.keys.items():
        if entry.file in missing:
            continue
        record = live.records.get(entry.record)
        value = record.values.get(key) if record else None
        if value is None:
            mistyped = entry.record in live.mistyped
            if mistyped or not sink.expires:
                yield ObservedChange(
                    key=key,
                    kind=Difference.CHANGED if mistyped else Difference.REMOVED,
                    secret=entry.secret,
                    expected_digest=entry.digest,
                )
        elif (actual := digest_of(value)) != entry.digest:
            yield ObservedChange(
                key=key,
                kind=Difference.CHANGED,
                secret=entry.secret,
                expected_digest=entry.digest,
                actual_digest=actual,
            )


def _added_keys(
    ledger: Ledger, applied: TargetState, live: Live, digest_key: bytes
) -> Iterator[ObservedChange]:
    """Yield the keys in our whole records that are neither applied nor retained."""
    for name in {entry.record for entry in applied.keys.values()}:
        record = live.records.get(name)
        for key, value in record.values.items() if record else ():
            if key not in applied.keys and key not in ledger.retained:
                yield ObservedChange(
                    key=key, kind=Difference.ADDED, actual_digest=digest(digest_key, value)
                )


def _of_next_sync(ledger: Ledger, live: Live, owner: Owner) -> set[str]:
    """Return records with the target's marker that its ledger lacks: the next sync owns them."""
    known = ledger.records()
    return {
        name
        for name, record in live.records.items()
        if name not in known and owner.owns(record.mark)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class HealState:
    """The back-off and flapping state of a target between polls.

    `heals`: attempts since the back-off was reset. `failures`: failed attempts in a row.
    `episodes`: recent times at which drift began.
    """

    heals: int = 0
    failures: int = 0
    clean_polls: int = 0
    next_heal_at: datetime | None = None
    last_heal_at: datetime | None = None
    episodes: tuple[datetime, ...] = ()
    flapping: bool = False
    last_poll_at: datetime | None = None


def after_drift(
    state: HealState, now: datetime, poll_interval_s: float, *, opened: bool
) -> HealState:
    """Count a poll with drift; `opened`: it began an episode."""
    begun = state.episodes + ((now,) if opened else ())
    recent = tuple(at for at in begun if at > now - FLAPPING_WITHIN)[-FLAPPING_EPISODES:]
    counted = replace(state, clean_polls=0, last_poll_at=now, episodes=recent)
    if state.flapping or len(recent) < FLAPPING_EPISODES:
        return counted
    return _calm(replace(counted, flapping=True), poll_interval_s)


def _calm(state: HealState, poll_interval_s: float) -> HealState:
    """Apply the long pause, from the last heal on, also if that was before the flapping."""
    if state.last_heal_at is None:
        return state
    calm = state.last_heal_at + timedelta(seconds=_calm_s(poll_interval_s))
    return replace(state, next_heal_at=max(calm, state.next_heal_at or calm))


def after_clean(state: HealState, now: datetime) -> HealState:
    """Count a poll without drift: 3 in a row reset the back-off, 10 end flapping."""
    clean = state.clean_polls + 1
    rested = replace(state, clean_polls=clean, last_poll_at=now, failures=0)
    if clean >= CLEAN_TO_RESET:
        rested = replace(rested, heals=0, next_heal_at=None)
    if clean >= CLEAN_TO_CALM and rested.flapping:
        rested = replace(rested, flapping=False, episodes=())
    return rested


def begin_heal(state: HealState, now: datetime, poll_interval_s: float) -> HealState:
    """Count a heal; it is stored before the call, so a watcher that dies does not forget it."""
    counted = replace(state, heals=state.heals + 1, last_heal_at=now)
    return replace(counted, next_heal_at=now + _pause(counted, poll_interval_s))


def end_heal(state: HealState, now: datetime, poll_interval_s: float, *, healed: bool) -> HealState:
    """Start the pause after an attempt, whether it succeeded or not."""
    ended = replace(state, failures=0 if healed else state.failures + 1)
    return replace(ended, next_heal_at=now + _pause(ended, poll_interval_s))


def is_unhealed(state: HealState) -> bool:
    return state.failures >= FAILURES_TO_GIVE_NOTICE


def may_heal(state: HealState, now: datetime) -> bool:
    return state.next_heal_at is None or state.next_heal_at <= now


def as_sane(state: HealState, now: datetime, poll_interval_s: float) -> HealState:
    """Limit a pause that another machine stored, because its clock may be wrong."""
    latest = now + timedelta(seconds=max(LONGEST_PAUSE_S, _calm_s(poll_interval_s)))
    if state.next_heal_at is None or state.next_heal_at <= latest:
        return state
    return replace(state, next_heal_at=latest)


def _pause(state: HealState, poll_interval_s: float) -> timedelta:
    doublings = min(max(0, state.heals - 1), 10)
    seconds = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**doublings)
    if is_unhealed(state):
        seconds = LONGEST_PAUSE_S
    if state.flapping:
        seconds = max(seconds, _calm_s(poll_interval_s))
    return timedelta(seconds=seconds)


def _calm_s(poll_interval_s: float) -> float:
    return max(LONGEST_PAUSE_S, FLAPPING_INTERVALS * poll_interval_s)


def drift_status(state: HealState, *, healing: bool, inconsistent: bool) -> TargetStatus:
    """Return the status of a target with drift; the worst one wins."""
    if inconsistent:
        return TargetStatus.INCONSISTENT
    if state.flapping:
        return TargetStatus.FLAPPING
    return TargetStatus.HEALING if healing else TargetStatus.DRIFTED


def change_documents(comparison: Comparison, limit: int) -> list[Mapping[str, object]]:
    """Return the changes in the form of a drift record."""
    return [
        {
            "key": change.key,
            "kind": change.kind.value,
            "secret": change.secret,
            "expected_digest": change.expected_digest,
            "actual_digest": change.actual_digest,
        }
        for change in comparison.changes[:limit]
    ]
