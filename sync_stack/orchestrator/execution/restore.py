"""Giving back what an attempt has replaced, from its journal.

(reference: sync-stack 4.8, restore)
"""

from __future__ import annotations

from dataclasses import replace

from sync_stack.core.journal import Restore, plan_restore
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import SinkConflict, SinkError, TargetMarker, batches
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator import counters
from sync_stack.orchestrator.execution.units import Unit
from sync_stack.orchestrator.rows import journals, ledgers


def restore(unit: Unit, ledger: Ledger, mark: TargetMarker) -> tuple[Ledger, int]:
    """The ledger without its intent, and how many keys were given back.

    Raises TaskError(restore_failed): the intent stays.
    """
    intent = ledger.intent
    if intent is None:
        return ledger, 0
    try:
        given = _give_back(unit, intent.journal, mark) if intent.journal else 0
    except SinkError as error:
        counters.restored("error")
        raise TaskError("restore_failed", f"{error.code}: {error.detail}") from error
    saved = ledgers.save(replace(ledger, intent=None))
    if saved is None:
        raise TaskError("restore_failed", "the ledger has moved meanwhile")
    if intent.journal:
        journals.delete(intent.journal)
    counters.restored("ok")
    return saved, given


def _give_back(unit: Unit, journal: str, mark: TargetMarker) -> int:
    entries = journals.load(journal)
    records = sorted(entry.record for entry in entries)
    for left in reversed(range(unit.sink.capabilities.replans + 1)):
        found = plan_restore(entries, unit.sink.read(unit.destination, unit.owner, records))
        try:
            _carry_out(unit, found, mark)
        except SinkConflict:
            if not left:
                raise
        else:
            return found.keys
    return 0


def _carry_out(unit: Unit, found: Restore, mark: TargetMarker) -> None:
    sink, where = unit.sink, unit.destination
    for deletes in batches(found.deletes, sink.capabilities):
        sink.delete(where, deletes, unit.owner, mark.generation)
    for puts in batches(found.puts, sink.capabilities):
        sink.write(where, puts, mark)
