"""What is ours at a destination: which records may be written, which keys are owned, which go.

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
from sync_stack.core.sink import Capabilities, Destination, Live, Owner


class PlanRefused(Exception):
    """Nothing may be written: prune_guard, ownership_conflict, unowned_destination, key_conflict.

    `keys`: the candidates of the guard, or the records in conflict; sorted.
    """

    def __init__(self, code: str, detail: str, keys: Iterable[str] = ()) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.keys = tuple(sorted(keys))
        self.retryable = False


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


def decide_ownership(request: PlanRequest) -> tuple[OwnedKeys, PruneDecision]:
    """Return what the target owns, and what becomes of it. Raise PlanRefused."""
    owned = _owned_keys(request)
    _refuse_foreign(request, owned)
    return owned, _decide_prune(request, owned)


def _refuse_foreign(request: PlanRequest, owned: OwnedKeys) -> None:
    """Raise PlanRefused where the plan would replace or join what belongs to somebody else."""
    live, records = request.live, _written_records(request)
    if not records:
        return
    _refuse_taken(request, records, owned)
    _refuse_mistyped(live, records, owned)
    _refuse_two_files(request)
    if live.unowned and not request.adopt:
        raise PlanRefused("unowned_destination", "it exists and was not written by Partita")
    if request.capabilities.refuses_foreign and live.foreign:
        raise PlanRefused(
            "unowned_destination", "it holds keys that Partita did not write", live.foreign
        )
    unmarked = [name for name in records if _is_unowned(request, owned, name)]
    if unmarked and not request.adopt:
        raise PlanRefused("unowned_destination", "exists without our marker", unmarked)


def _refuse_taken(request: PlanRequest, records: AbstractSet[str], owned: OwnedKeys) -> None:
    """Raise PlanRefused when a record belongs to another target, by ledger or by marker."""
    for name in sorted(records):
        record = request.live.records.get(name)
        holder = request.taken.get(name, "")
        if not holder and record and record.mark and name not in owned.ours:
            mark = record.mark
            holder = f"rule {mark.rule!r}, {mark.repo}, environment {mark.env!r}"
        if holder:
            raise PlanRefused("ownership_conflict", f"{name!r} belongs to {holder}", [name])


def _refuse_mistyped(live: Live, records: AbstractSet[str], owned: OwnedKeys) -> None:
    """Raise PlanRefused where another type of value stands in a record that we never wrote.

    `adopt` does not change this: such a value could not be restored.
    """
    known = live.mistyped & owned.settled
    if live.mistyped_whole and known:
        return
    if wrong := (records & live.mistyped) - known:
        detail = "there is a value of another type there, which Partita did not write"
        raise PlanRefused("unowned_destination", detail, wrong)


def _refuse_two_files(request: PlanRequest) -> None:
    if not request.capabilities.file_records:
        return
    files: dict[str, str] = {}
    for entry in request.desired.values():
        other = files.setdefault(entry.record, entry.file)
        if other != entry.file:
            detail = f"{other} and {entry.file} would both be {entry.record!r}"
            raise PlanRefused("key_conflict", detail, [entry.record])


def _is_unowned(request: PlanRequest, owned: OwnedKeys, name: str) -> bool:
    sink, record = request.capabilities, request.live.records.get(name)
    if record is None or record.mark is not None or not sink.marks_records:
        return False
    if sink.adopts_unmarked and not sink.whole_records:
        return False
    return name not in owned.settled


def refuse_overlap(destination: Destination, older: Mapping[str, Destination]) -> None:
    """Raise PlanRefused when the destination overlaps that of an older target (by name)."""
    for target, other in sorted(older.items()):
        if destination.overlaps(other):
            raise PlanRefused(
                "ownership_conflict",
                f"destination {destination.name!r} overlaps {other.name!r} of {target}",
            )


def refuse_shared(
    records: AbstractSet[str], others: Iterable[tuple[str, AbstractSet[str]]]
) -> None:
    """Raise PlanRefused when another environment of the same rule sync writes one of the records.

    `others`: environment and records of each target at the same destination.
    """
    for env, theirs in others:
        if shared := records & theirs:
            detail = f"{min(shared)!r} also belongs to environment {env!r}"
            raise PlanRefused("ownership_conflict", detail, shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedKeys:
    """The keys that a target owns by name, and the records that it has written before.

    `ours`: live records with its marker. `settled`: records of finished attempts. If one is found
    without a marker, somebody overwrote it: that is drift, and the record is still ours.
    """

    keys: Mapping[str, LedgerKey]
    ours: frozenset[str]
    settled: frozenset[str]

    def present(self, live: Live, keys: Iterable[str]) -> frozenset[str]:
        """Those of owned `keys` that are live in the record that we know them in."""
        return frozenset(
            key
            for key in keys
            if (record := live.records.get(self.keys[key].record)) and key in record.values
        )


def _owned_keys(request: PlanRequest) -> OwnedKeys:
    """Return the ledger's keys and those of other live records with the target's marker.

    Extra keys inside a record that the ledger knows are part of the record and not owned.
    """
    ledger, live = request.ledger, request.live.records
    known = ledger.owned_keys() if ledger else {}
    settled = ledger.settled_records() if ledger else frozenset()
    records = {entry.record for entry in known.values()}
    ours = frozenset(name for name, found in live.items() if request.owner.owns(found.mark))
    found = {
        key: LedgerKey(record=name, digest="")
        for name, record in live.items()
        if name in ours and name not in records
        for key in record.values
    }
    return OwnedKeys(keys=found | known, ours=ours, settled=settled)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneDecision:
    """Every owned key that is not desired is in at most one of these.

    going      will be deleted, or leave its whole record; `pruned`: those that are live
    released   its live record is not ours any more: left alone, owned no longer
    retained   stays where it is and stays owned
    held       its file is missing: counts as desired

    `protected`: all keys, owned or not, that a glob names. A key that is in none of them is gone
    already. `vacated`: records of ours that go because their keys have moved to other records.
    """

    going: frozenset[str]
    pruned: frozenset[str]
    released: frozenset[str]
    retained: frozenset[str]
    would_prune: frozenset[str]
    held: Mapping[str, LedgerKey]
    protected: frozenset[str]
    vacated: frozenset[str]


def _decide_prune(request: PlanRequest, owned: OwnedKeys) -> PruneDecision:
    """Decide on each owned key that is not desired. Raise PlanRefused (`prune_guard`)."""
    held = {
        key: entry
        for key, entry in owned.keys.items()
        if entry.file in request.missing_files and key not in request.desired
    }
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
        pruned=owned.present(request.live, going),
        released=released,
        retained=owned.present(request.live, surplus - released - going),
        would_prune=owned.present(request.live, candidates if would_go else ()),
        held=held,
        protected=guarded,
        vacated=_vacated_records(request, owned),
    )


def _written_records(request: PlanRequest) -> frozenset[str]:
    return frozenset(key.record for key in request.desired.values())


def _keys_to_release(
    request: PlanRequest, owned: OwnedKeys, candidates: frozenset[str]
) -> frozenset[str]:
    """Return keys in records with another owner's marker, or without one where all have one."""
    ours = _written_records(request) | owned.ours
    lost = {
        name
        for name, record in request.live.records.items()
        if name not in ours and (record.mark is not None or request.capabilities.marks_records)
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
    rewritten = _written_records(request)
    return frozenset(key for key in candidates if owned.keys[key].record in rewritten)


def _vacated_records(request: PlanRequest, owned: OwnedKeys) -> frozenset[str]:
    """Return our records whose keys are all desired elsewhere, as after a file was renamed."""
    if not request.prunes or request.prune.dry_run:
        return frozenset()
    ours = owned.ours
    if not request.capabilities.marks_records:
        ours |= owned.settled & request.live.records.keys()
    return frozenset(
        name
        for name in ours - _written_records(request)
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
