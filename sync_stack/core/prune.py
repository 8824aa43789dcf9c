"""The decision on keys that are owned but no longer desired, and the guard that limits it.

(reference: sync-stack 4.7)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from sync_stack.core.bundle.rules import Prune, SyncMode
from sync_stack.core.ledger import Ledger, LedgerKey
from sync_stack.core.ownership import OwnedKeys, PlanRefused
from sync_stack.core.sink import Capabilities, Live, Owner


class DesiredKey(NamedTuple):
    """One key as Git wants it, and the record that will hold it (`Sink.record`)."""

    value: str
    record: str
    file: str = ""
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """All that a plan depends on; nothing else is read.

    `live` is the complete answer of `Sink.read` for the records of `desired` and of the ledger.
    `missing_files`: tracked files that are absent at the commit; their keys count as desired.
    `taken`: record → name of the target, of all other units of the destination.
    `heal`: write what differs, whatever the mode, and never prune.
    `limits_waived`: a cleanup that was asked for; ratio and emptiness are not held against it.
    """

    owner: Owner
    capabilities: Capabilities
    desired: Mapping[str, DesiredKey]
    live: Live
    ledger: Ledger | None = None
    mode: SyncMode = SyncMode.AUTO
    prune: Prune = field(default_factory=Prune)
    missing_files: frozenset[str] = frozenset()
    taken: Mapping[str, str] = field(default_factory=dict)
    approved: frozenset[str] = frozenset()
    adopt: bool = False
    heal: bool = False
    limits_waived: bool = False

    @property
    def live_values(self) -> dict[str, str]:
        """The live values of desired keys, each in the record where it is wanted."""
        records = {name: record.values for name, record in self.live.records.items()}
        return {
            key: records[wanted.record][key]
            for key, wanted in self.desired.items()
            if key in records.get(wanted.record, ())
        }

    @property
    def prunes(self) -> bool:
        """Whether owned keys that are not desired are to go."""
        wanted = self.prune.enabled or self.mode is SyncMode.LIVE_STATE
        return not self.heal and (wanted or self.capabilities.implied_prune)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneDecision:
    """Every owned key that is not desired is in at most one of these.

    going      will be deleted, or leave its whole record
    released   its live record is not ours any more: left alone, owned no longer
    retained   stays where it is and stays owned
    held       its file is missing: counts as desired

    `protected`: all keys, owned or not, that a glob names. A key that is in none of them is gone
    already. `vacated`: records of ours that go because their keys have moved to other records.
    """

    going: frozenset[str]
    released: frozenset[str]
    retained: frozenset[str]
    would_prune: frozenset[str]
    held: Mapping[str, LedgerKey]
    protected: frozenset[str]
    vacated: frozenset[str]


def decide_prune(request: PlanRequest, owned: OwnedKeys) -> PruneDecision:
    """Decide on each owned key that is not desired. Raise PlanRefused (`prune_guard`)."""
    held = _keys_to_hold(request)
    guarded = protected_keys(
        owned.keys.keys() | request.live.values.keys(), request.prune.protection
    )
    surplus = frozenset(owned.keys.keys() - request.desired.keys() - held.keys())
    released = _keys_to_release(request, owned, surplus - guarded)
    candidates = surplus - guarded - released
    going = _going(request, owned, candidates)
    if not request.limits_waived:
        impact = PruneImpact(
            candidates=going, owned=len(owned.keys), nothing_desired=not request.desired
        )
        if reason := guard_hit(impact, request.prune, approved=request.approved):
            raise PlanRefused("prune_guard", reason, going)
    would_go = request.prune.dry_run and request.prunes
    return PruneDecision(
        going=going,
        released=released,
        retained=owned.present(request.live, surplus - released - going),
        would_prune=owned.present(request.live, candidates if would_go else ()),
        held=held,
        protected=guarded,
        vacated=_vacated_records(request, owned),
    )


def _keys_to_hold(request: PlanRequest) -> dict[str, LedgerKey]:
    known = request.ledger.owned_keys() if request.ledger else {}
    return {
        key: entry
        for key, entry in known.items()
        if entry.file in request.missing_files and key not in request.desired
    }


def written_records(request: PlanRequest) -> frozenset[str]:
    return frozenset(key.record for key in request.desired.values())


def _keys_to_release(
    request: PlanRequest, owned: OwnedKeys, candidates: frozenset[str]
) -> frozenset[str]:
    """Return keys in records with another owner's marker, or without one where all have one."""
    ours = written_records(request)
    lost = {
        name
        for name, record in request.live.records.items()
        if name not in ours
        and not request.owner.owns(record.mark)
        and (record.mark is not None or request.capabilities.marks_records)
    }
    return frozenset(key for key in candidates if owned.keys[key].record in lost)


def _going(request: PlanRequest, owned: OwnedKeys, candidates: frozenset[str]) -> frozenset[str]:
    """Return the keys to delete; a rewritten whole record loses its keys even with prune off."""
    if request.heal or request.prune.dry_run:
        return frozenset()
    if request.prunes:
        return candidates
    if not request.capabilities.whole_records:
        return frozenset()
    rewritten = written_records(request)
    return frozenset(key for key in candidates if owned.keys[key].record in rewritten)


def _vacated_records(request: PlanRequest, owned: OwnedKeys) -> frozenset[str]:
    """Return our records whose keys are all desired elsewhere, as after a file was renamed."""
    if not request.prunes or request.prune.dry_run:
        return frozenset()
    marks = request.capabilities.marks_records
    ours = {
        name
        for name, record in request.live.records.items()
        if request.owner.owns(record.mark) or (not marks and name in owned.settled)
    }
    return frozenset(
        name
        for name in ours - written_records(request)
        if request.live.records[name].values.keys() <= request.desired.keys()
    )


def protected_keys(keys: Iterable[str], globs: Sequence[str]) -> frozenset[str]:
    """Return the `keys` that a glob names: `*` is any text, `?` one character, case counts.

    Globs are written for dot-form keys. Where the sink's keys are flat the dots of a glob stand
    for underscores as well: rather one key too many is kept.
    """
    patterns = {form for glob in globs for form in (_plain(glob), _plain(glob).replace(".", "_"))}
    return frozenset(key for key in keys if any(fnmatchcase(key, pattern) for pattern in patterns))


def _plain(glob: str) -> str:
    """Brackets are no classes here: keys of lists may hold them."""
    return glob.replace("[", "[[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneImpact:
    """The keys to delete, the number of owned keys, and whether nothing is desired."""

    candidates: AbstractSet[str]
    owned: int
    nothing_desired: bool


def guard_hit(
    impact: PruneImpact, limits: Prune, *, approved: AbstractSet[str] = frozenset()
) -> str:
    """Return why the guard refuses, or "".

    An operator's approval waives the guard only for the keys that the operator has seen.
    """
    going = len(impact.candidates)
    if not going or impact.candidates <= approved:
        return ""
    if impact.nothing_desired and not limits.allow_empty:
        return f"nothing is desired: all {going} key(s) would go"
    ratio = going / max(impact.owned, going)
    if going > limits.max_delete_floor and ratio > limits.max_delete_ratio:
        return f"{going} of {impact.owned} owned keys would go, more than {limits.max_delete_ratio}"
    return ""
