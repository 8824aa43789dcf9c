"""What becomes of keys that are owned but no longer desired (reference: sync-stack 4.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sync_stack.core.bundle.model import Prune, SyncMode
from sync_stack.core.guards import PruneImpact, guard_hit
from sync_stack.core.ledger import Ledger, LedgerKey
from sync_stack.core.ownership import OwnedKeys, PlanRefused
from sync_stack.core.protection import protected
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
    `taken`: record → name of the unit, of all other units of the destination.
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


def fates(request: PlanRequest, owned: OwnedKeys) -> PruneDecision:
    """Raises PlanRefused (`prune_guard`) before anything is written."""
    held = _held(request)
    guarded = protected(owned.keys.keys() | request.live.values.keys(), request.prune.protection)
    surplus = frozenset(owned.keys.keys() - request.desired.keys() - held.keys())
    released = _released(request, owned, surplus - guarded)
    candidates = surplus - guarded - released
    going = _going(request, owned, candidates)
    _check_guard(request, owned, going)
    return PruneDecision(
        going=going,
        released=released,
        retained=owned.present(request.live, surplus - released - going),
        would_prune=_would_go(request, owned, candidates),
        held=held,
        protected=guarded,
        vacated=_vacated(request, owned),
    )


def _would_go(request: PlanRequest, owned: OwnedKeys, candidates: frozenset[str]) -> frozenset[str]:
    """What is there and would be pruned; what somebody has deleted already would not."""
    wanted = request.prune.dry_run and request.prunes
    return owned.present(request.live, candidates) if wanted else frozenset()


def _held(request: PlanRequest) -> dict[str, LedgerKey]:
    known = request.ledger.owned() if request.ledger else {}
    return {
        key: entry
        for key, entry in known.items()
        if entry.file in request.missing_files and key not in request.desired
    }


def written_records(request: PlanRequest) -> frozenset[str]:
    return frozenset(key.record for key in request.desired.values())


def _released(request: PlanRequest, owned: OwnedKeys, candidates: frozenset[str]) -> frozenset[str]:
    """Those in records that bear another's marker, or none where each record should bear one."""
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
    """A whole record is written whole: what Git no longer has leaves it even with prune off."""
    if request.heal or request.prune.dry_run:
        return frozenset()
    if request.prunes:
        return candidates
    if not request.capabilities.whole_records:
        return frozenset()
    rewritten = written_records(request)
    return frozenset(key for key in candidates if owned.keys[key].record in rewritten)


def _vacated(request: PlanRequest, owned: OwnedKeys) -> frozenset[str]:
    """A renamed file leaves a record behind, and every key of it is desired elsewhere."""
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


def _check_guard(request: PlanRequest, owned: OwnedKeys, going: frozenset[str]) -> None:
    if request.limits_waived:
        return
    doomed = PruneImpact(
        candidates=going, owned=len(owned.keys), nothing_desired=not request.desired
    )
    if reason := guard_hit(doomed, request.prune, approved=request.approved):
        raise PlanRefused("prune_guard", reason, going)
