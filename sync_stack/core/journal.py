"""The journal of what a plan replaces, and its restore (reference: sync-stack 4.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sync_stack.core.sink import Delete, Live, LiveRecord, Put


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """One record as it was and as it is meant to be; None where there is none.

    `marked` is False for a record that was somebody else's before we took it over.
    """

    record: str
    previous: Mapping[str, str] | None
    intended: Mapping[str, str] | None
    marked: bool = True
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Deletes come first, then puts; `kept` are keys that somebody else has changed meanwhile."""

    deletes: tuple[Delete, ...]
    puts: tuple[Put, ...]
    kept: frozenset[str]

    @property
    def keys(self) -> int:
        """Return how many keys are given back."""
        return len(self.deletes) + sum(len(put.values) for put in self.puts)


def merge_journals(
    older: Iterable[JournalRecord], newer: Iterable[JournalRecord]
) -> tuple[JournalRecord, ...]:
    """Merge journals for a roll-forward: the older's previous, the newer's intended."""
    merged = {entry.record: entry for entry in older}
    for entry in newer:
        first = merged.get(entry.record)
        merged[entry.record] = replace(first, intended=entry.intended) if first else entry
    return tuple(merged.values())


def plan_restore(journal: Sequence[JournalRecord], live: Live) -> Restore:
    """Restore what was, in reverse order, wherever the live value is still the intended one.

    `live`: the journal's records as they are now. What somebody else has changed stays.
    """
    deletes: list[Delete] = []
    puts: list[Put] = []
    kept: set[str] = set()
    for entry in reversed(journal):
        if entry.record in live.mistyped:
            kept |= (entry.intended or {}).keys()
            continue
        found = live.records.get(entry.record)
        wanted, others = _record_to_restore(entry, found)
        kept |= others
        if wanted is None:
            if found:
                key = next(iter(found.values)) if len(found.values) == 1 else ""
                deletes.append(Delete(record=entry.record, key=key, version=found.version))
        elif found is None or wanted != found.values or (found.mark and not entry.marked):
            puts.append(_put(entry, wanted, found))
    return Restore(deletes=tuple(deletes), puts=tuple(puts), kept=frozenset(kept))


def _record_to_restore(
    entry: JournalRecord, found: LiveRecord | None
) -> tuple[Mapping[str, str] | None, set[str]]:
    """Return the record as it should be, and the keys that somebody else changed."""
    previous, live = entry.previous, found.values if found else None
    if live is None:  # gone as intended, never written, or deleted by somebody else
        return (previous if entry.intended is None else None), set()
    intended = entry.intended or {}
    keys = live.keys() | intended.keys() | (previous or {}).keys()
    ours = {key for key in keys if live.get(key) == intended.get(key)}
    values = {key: text for key, text in live.items() if key not in ours}
    values |= {key: text for key, text in (previous or {}).items() if key in ours}
    others = {key for key in keys - ours if live.get(key) != (previous or {}).get(key)}
    return (None if previous is None and not values else values), others


def _put(entry: JournalRecord, values: Mapping[str, str], found: LiveRecord | None) -> Put:
    return Put(
        record=entry.record,
        values=values,
        file=entry.file,
        version=found.version if found else "",
        marked=entry.marked,
    )
