"""Whose a key or record is (reference: sync-stack 4.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sync_stack.core.ledger import Ledger, LedgerKey
from sync_stack.core.sink import Destination, Live, LiveRecord, Owner, TargetMarker


class PlanRefused(Exception):
    """Nothing may be written.

    `code`: `prune_guard`, `ownership_conflict`, `unowned_destination` or `key_conflict`.

    `keys` are the candidates of the guard, or the records in conflict; sorted.
    """

    def __init__(self, code: str, detail: str, keys: Iterable[str] = ()) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.keys = tuple(sorted(keys))
        self.retryable = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedKeys:
    """What the unit owns: `keys` by name, and the records that it has written before.

    A record of `settled` was written by an attempt that came to its end: one found there without
    a marker was overwritten by somebody and is drift, not somebody else's.
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


def holdings(ledger: Ledger | None, live: Live, owner: Owner) -> OwnedKeys:
    """The ledger's keys, and those of live records with the unit's marker that it knows nothing of.

    Extra keys inside a record that the ledger knows are part of the record and not owned.
    """
    known = ledger.owned() if ledger else {}
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
    """Raise when one of the records belongs to another unit, by its ledger or by its marker.

    `taken`: record → unit, of all other units of the destination.
    """
    for name in sorted(records):
        holder = taken.get(name) or _other(live.records.get(name), owner)
        if holder:
            raise PlanRefused("ownership_conflict", f"{name!r} belongs to {holder}", [name])


def _other(record: LiveRecord | None, owner: Owner) -> str:
    if record is None or record.mark is None or owner.owns(record.mark):
        return ""
    return unit_name(record.mark)


def unit_name(mark: TargetMarker) -> str:
    return f"rule {mark.rule!r}, {mark.repo}, environment {mark.env!r}"


def refuse_overlap(destination: Destination, older: Mapping[str, Destination]) -> None:
    """Raise when the destination lies inside, or around, that of an older unit (name → where)."""
    for unit, other in sorted(older.items()):
        if destination.overlaps(other):
            raise PlanRefused(
                "ownership_conflict",
                f"destination {destination.name!r} overlaps {other.name!r} of {unit}",
            )
