"""The owner of a key or record (reference: sync-stack 4.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sync_stack.core.ledger import Ledger, LedgerKey
from sync_stack.core.sink import Destination, Live, Owner, TargetMarker


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedKeys:
    """The keys that a target owns by name, and the records that it has written before.

    `settled`: records of finished attempts. If one is found without a marker, somebody overwrote
    it: that is drift, and the record is still ours.
    """

    keys: Mapping[str, LedgerKey] = field(default_factory=dict)
    settled: frozenset[str] = frozenset()

    def present(self, live: Live, keys: Iterable[str]) -> frozenset[str]:
        """Those of owned `keys` that are live in the record that we know them in."""
        return frozenset(
            key
            for key in keys
            if (record := live.records.get(self.keys[key].record)) and key in record.values
        )


def owned_keys(ledger: Ledger | None, live: Live, owner: Owner) -> OwnedKeys:
    """Return the ledger's keys and those of other live records with the target's marker.

    Extra keys inside a record that the ledger knows are part of the record and not owned.
    """
    known = ledger.owned_keys() if ledger else {}
    records = {entry.record for entry in known.values()}
    found = {
        key: LedgerKey(record=name, digest="")
        for name, record in live.records.items()
        if name not in records and owner.owns(record.mark)
        for key in record.values
    }
    return OwnedKeys(
        keys=found | known, settled=ledger.settled_records() if ledger else frozenset()
    )


def refuse_taken(
    records: Iterable[str], taken: Mapping[str, str], live: Live, owner: Owner
) -> None:
    """Raise PlanRefused when a record belongs to another target, by ledger or by marker.

    `taken`: record → target, of all other targets of the destination.
    """
    for name in sorted(records):
        record = live.records.get(name)
        holder = taken.get(name, "")
        if not holder and record and record.mark and not owner.owns(record.mark):
            holder = target_name(record.mark)
        if holder:
            raise PlanRefused("ownership_conflict", f"{name!r} belongs to {holder}", [name])


def target_name(mark: TargetMarker) -> str:
    return f"rule {mark.rule!r}, {mark.repo}, environment {mark.env!r}"


def refuse_overlap(destination: Destination, older: Mapping[str, Destination]) -> None:
    """Raise PlanRefused when the destination overlaps that of an older target (by name)."""
    for target, other in sorted(older.items()):
        if destination.overlaps(other):
            raise PlanRefused(
                "ownership_conflict",
                f"destination {destination.name!r} overlaps {other.name!r} of {target}",
            )
