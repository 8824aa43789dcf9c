"""The plan of one sync: which records to write and to delete, from desired, owned and live keys.

(reference: sync-stack 4.7, 4.8, step 5)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sync_stack.core.bundle.rules import SyncMode
from sync_stack.core.journal import JournalRecord
from sync_stack.core.ledger import Ledger, LedgerKey, RetainedKey, digest, digester
from sync_stack.core.ownership import (
    DesiredKey,
    OwnedKeys,
    PlanRefused,
    PlanRequest,
    PruneDecision,
    decide_ownership,
)
from sync_stack.core.sink import MISTYPED, Delete, Live, LiveRecord, Put

__all__ = [
    "DesiredKey",
    "Plan",
    "PlanRequest",
    "applied_keys",
    "plan_apply",
    "plan_dry_run",
    "retained_keys",
]

AUTO_UPSERT_KEYS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Puts, then deletes; `journal` is what restores them. All sets name keys.

    written      desired keys whose live value changes
    unchanged    desired keys that have their value already, rewritten or not
    pruned       live keys that go
    retained     keys that stay, owned, though not desired → their record
    held         keys of missing files, to be kept in the ledger as they are
    """

    mode: SyncMode
    puts: tuple[Put, ...]
    deletes: tuple[Delete, ...]
    journal: tuple[JournalRecord, ...]
    written: frozenset[str]
    unchanged: frozenset[str]
    pruned: frozenset[str]
    adopted: frozenset[str]
    released: frozenset[str]
    would_prune: frozenset[str]
    retained: Mapping[str, str]
    held: Mapping[str, LedgerKey]

    def __bool__(self) -> bool:
        """Whether there is anything to send to the sink."""
        return bool(self.puts or self.deletes)

    @property
    def put_records(self) -> frozenset[str]:
        return frozenset(put.record for put in self.puts)

    def unverified_records(self, live: Live) -> tuple[str, ...]:
        """Return the touched records that do not read back as planned, sorted."""
        wrong = {gone.record for gone in self.deletes if gone.record in live.records}
        for put in self.puts:
            record = live.records.get(put.record)
            if record is None or record.values != put.values:
                wrong.add(put.record)
        return tuple(sorted(wrong))


def plan_apply(request: PlanRequest) -> Plan:
    """Return the plan; nothing is written. Raise PlanRefused."""
    owned, decision = decide_ownership(request)
    live = request.live_values  # values are compared as text: `1.10` is not `1.1`
    unchanged = frozenset(
        key for key, wanted in request.desired.items() if live.get(key) == wanted.value
    )
    contents = dict(_contents(request, owned, decision))
    puts = tuple(_puts(request, owned, contents))
    deletes = tuple(_deletes(request, owned, decision, contents))
    carried = {
        key: name for name, text in contents.items() for key in text if key not in request.desired
    }
    kept = {key: owned.keys[key].record for key in decision.retained}
    return Plan(
        mode=effective_mode(request),
        puts=puts,
        deletes=deletes,
        journal=tuple(_journal(request, puts, deletes)),
        written=frozenset(key for put in puts for key in put.values if key in request.desired)
        - unchanged,
        unchanged=unchanged,
        pruned=decision.pruned,
        adopted=_keys_to_adopt(request, owned, live),
        released=decision.released,
        would_prune=decision.would_prune,
        retained={key: name for key, name in (carried | kept).items() if key not in decision.held},
        held=decision.held,
    )


def plan_dry_run(request: PlanRequest) -> tuple[Plan, PlanRefused | None]:
    """Return the plan; if a guard stops it, the plan without the guard, and the refusal.

    Raise PlanRefused where nothing else may be written either.
    """
    try:
        return plan_apply(request), None
    except PlanRefused as refused:
        if refused.code != "prune_guard":
            raise
        return plan_apply(replace(request, limits_waived=True)), refused


def effective_mode(request: PlanRequest) -> SyncMode:
    """Return the rule's mode; AUTO depends on the number of desired keys, and a heal repairs."""
    if request.heal:
        return SyncMode.GIT_SMART_REPAIR
    if request.mode is not SyncMode.AUTO:
        return request.mode
    few = len(request.desired) <= AUTO_UPSERT_KEYS
    return SyncMode.GIT_UPSERT_ALL if few else SyncMode.GIT_SMART_REPAIR


def _contents(
    request: PlanRequest, owned: OwnedKeys, decision: PruneDecision
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (record, its new content) for each record with a desired key or a key to remove."""
    wanted: dict[str, dict[str, str]] = {}
    for key, entry in request.desired.items():
        wanted.setdefault(entry.record, {})[key] = entry.value
    if not request.capabilities.whole_records:
        yield from wanted.items()
        return
    staying = decision.protected | decision.held.keys() | decision.retained
    shrinking = {owned.keys[key].record for key in decision.going}
    for name in wanted.keys() | shrinking:
        record = request.live.records.get(name)
        live = record.values if record else {}
        carried = {key: text for key, text in live.items() if key in staying}
        if content := carried | wanted.get(name, {}):
            yield name, content


def _puts(
    request: PlanRequest, owned: OwnedKeys, contents: Mapping[str, dict[str, str]]
) -> Iterator[Put]:
    everything = effective_mode(request) is SyncMode.GIT_UPSERT_ALL
    live = request.live
    # the source file that a record's metadata names: the first of several
    files = {entry.record: entry.file for entry in owned.keys.values() if entry.file}
    files |= dict(
        sorted({(entry.record, entry.file) for entry in request.desired.values()}, reverse=True)
    )
    for name in sorted(contents):
        record = live.records.get(name)
        absent = MISTYPED if name in live.mistyped else ""
        if everything or record is None or _needs_write(request, record, contents[name]):
            yield Put(
                record=name,
                values=contents[name],
                file=files.get(name, ""),
                version=record.version if record else absent,
            )


def _needs_write(request: PlanRequest, record: LiveRecord, content: Mapping[str, str]) -> bool:
    """Whether the record differs, or needs our marker: adopted, or taken over from a rule."""
    if record.values != content:
        return True
    mark = record.mark
    unmarked = mark is None or mark.rule != request.owner.rule
    return request.capabilities.marks_records and not request.heal and unmarked


def _deletes(
    request: PlanRequest,
    owned: OwnedKeys,
    decision: PruneDecision,
    contents: Mapping[str, dict[str, str]],
) -> Iterator[Delete]:
    whole = request.capabilities.whole_records
    going = dict.fromkeys(decision.vacated, "")
    going |= {owned.keys[key].record: "" if whole else key for key in decision.going}
    for name in sorted(going.keys() - contents.keys()):
        if record := request.live.records.get(name):
            yield Delete(record=name, key=going[name], version=record.version)


def _journal(
    request: PlanRequest, puts: tuple[Put, ...], deletes: tuple[Delete, ...]
) -> Iterator[JournalRecord]:
    """Yield records in the order of the operations; a put without a change is not restored."""
    for put in puts:
        before = request.live.records.get(put.record)
        previous = before.values if before else None
        marked = before is None or before.mark is not None
        marked = marked or not request.capabilities.marks_records
        if previous != put.values or not marked:
            yield JournalRecord(
                record=put.record,
                previous=previous,
                intended=put.values,
                marked=marked,
                file=put.file,
            )
    for gone in deletes:
        values = request.live.records[gone.record].values
        yield JournalRecord(record=gone.record, previous=values, intended=None)


def _keys_to_adopt(
    request: PlanRequest, owned: OwnedKeys, live: Mapping[str, str]
) -> frozenset[str]:
    """Return the live keys without an owner that Git now declares."""
    ours = owned.settled | owned.ours
    present = (request.desired.keys() & live.keys()) - owned.keys.keys()
    return frozenset(key for key in present if request.desired[key].record not in ours)


def applied_keys(request: PlanRequest, plan: Plan, digest_key: bytes) -> dict[str, LedgerKey]:
    """Return the keys of `intent`, and later of `applied`, that the plan leads to."""
    digest_of = digester(digest_key)
    keys = {
        key: LedgerKey(
            record=entry.record,
            digest=digest_of(entry.value),
            file=entry.file,
            secret=entry.secret,
        )
        for key, entry in request.desired.items()
    }
    return keys | dict(plan.held)


def retained_keys(
    plan: Plan, ledger: Ledger | None, live: Live, *, digest_key: bytes, now: str
) -> dict[str, RetainedKey]:
    """Return the retained keys that the plan leads to; a key retained before keeps `since`."""
    before = ledger.retained if ledger else {}
    return {
        key: before.get(key)
        or RetainedKey(
            record=name, digest=digest(digest_key, live.records[name].values[key]), since=now
        )
        for key, name in plan.retained.items()
    }
