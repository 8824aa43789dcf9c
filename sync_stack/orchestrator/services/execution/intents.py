"""Intents: stored before the first write, applied after the last one, or restored from the journal.

(reference: sync-stack 4.7, 4.8)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sync_stack.core.journal import JournalRecord, Restore, merge_journals, plan_restore
from sync_stack.core.ledger import Intent, Ledger, State
from sync_stack.core.plan import applied_keys, retained_keys
from sync_stack.core.sink import (
    Destination,
    SinkConflict,
    SinkError,
    TargetMarker,
    TargetPlace,
    batches,
)
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator import derived_keys
from sync_stack.orchestrator.selectors import ledgers, tasks
from sync_stack.orchestrator.services import counters, journals, ledger_records
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.heartbeat import GuardedSink
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.target_plan import Planned
from sync_stack.orchestrator.services.execution.targets import Unit, UnitFiles, held

log: Final = logging.getLogger(__name__)


def restore(unit: Unit, ledger: Ledger, mark: TargetMarker) -> tuple[Ledger, int]:
    """The ledger without its intent, and how many keys were given back.

    Raises TaskError(restore_failed): the intent stays.
    """
    intent = ledger.intent
    if intent is None:
        return ledger, 0
    try:
        given = _restore_journal(unit, intent.journal, mark) if intent.journal else 0
    except SinkError as error:
        counters.restored("error")
        raise TaskError("restore_failed", f"{error.code}: {error.detail}") from error
    saved = ledger_records.save(replace(ledger, intent=None))
    if saved is None:
        raise TaskError("restore_failed", "the ledger has moved meanwhile")
    if intent.journal:
        journals.delete(intent.journal)
    counters.restored("ok")
    return saved, given


def _restore_journal(unit: Unit, journal: str, mark: TargetMarker) -> int:
    entries = journals.load(journal)
    records = sorted(entry.record for entry in entries)
    for left in reversed(range(unit.sink.capabilities.replans + 1)):
        found = plan_restore(entries, unit.sink.read(unit.destination, unit.owner, records))
        try:
            _write_restore(unit, found, mark)
        except SinkConflict:
            if not left:
                raise
        else:
            return found.keys
    return 0


def _write_restore(unit: Unit, found: Restore, mark: TargetMarker) -> None:
    sink, where = unit.sink, unit.destination
    for deletes in batches(found.deletes, sink.capabilities):
        sink.delete(where, deletes, unit.owner, mark.generation)
    for puts in batches(found.puts, sink.capabilities):
        sink.write(where, puts, mark)


def mark_of(attempt: Attempt, reading: RefState, unit: Unit) -> TargetMarker:
    place = unit.place
    return TargetMarker(
        rule=place.rule,
        repo=place.repo,
        env=place.env,
        generation=unit.generation,
        tenant=place.tenant,
        datasource=place.datasource,
        ref=reading.event.ref,
        commit=reading.head,
        tags=dict(attempt.bundle.global_tags),
        updated_at=attempt.now(),
    )


def settle(attempt: Attempt, reading: RefState, unit: Unit) -> tuple[JournalRecord, ...]:
    """Finish what an earlier attempt left (4.8 step 4). Raises TaskError, SinkError.

    Committed: applied. Ours, for the same commit: its journal, to roll forward. Else: restored.
    """
    ledger = unit.ledger
    if ledger is None or ledger.intent is None:
        return ()
    state = ledger.intent.state
    if is_committed(ledger):
        unit.ledger = commit_intent(ledger)
        return ()
    same = (attempt.task.id, reading.head, reading.rule_digest)
    if (state.task_id, state.commit, state.rule_digest) == same:
        unit.sink.fence(unit.destination, unit.owner, unit.generation)
        return journals.load(ledger.intent.journal) if ledger.intent.journal else ()
    give_back(attempt, unit, ledger, mark_of(attempt, reading, unit))
    return ()


def give_back(attempt: Attempt, unit: Unit, ledger: Ledger, mark: TargetMarker) -> None:
    """What an earlier attempt was at, undone. Raises TaskError(restore_failed), SinkError."""
    unit.sink.fence(unit.destination, unit.owner, unit.generation)
    attempt.beat.restoring = True
    try:
        unit.ledger, _ = restore(unit, ledger, mark)
    finally:
        attempt.beat.restoring = False


def is_committed(ledger: Ledger) -> bool:
    """Whether the task of the intent has stored it among its committed targets."""
    task = tasks.get(ledger.intent.state.task_id) if ledger.intent else None
    return task is not None and has_committed(task.memory, ledger)


def has_committed(memory: Mapping[str, Any], ledger: Ledger) -> bool:
    generation = ledger.intent.state.generation if ledger.intent else 0
    return any(
        target["committed"]
        and target["unit_id"] == ledger.unit_id
        and target["generation"] == generation
        for outcome in memory.get("done", {}).values()
        for target in outcome["targets"]
    )


def store_intent(attempt: Attempt, part: RuleSync, reading: RefState, planned: Planned) -> None:
    """Journal first, then the ledger that names it. Raises TaskError when it has moved."""
    unit = planned.unit
    journal = merge_journals(planned.older, planned.plan.journal)
    before = unit.ledger.intent.journal if unit.ledger and unit.ledger.intent else ""
    name = journals.store(journal, task_id=attempt.task.id) if journal else ""
    ledger = replace(
        unit.ledger or _fresh(part, unit),
        intent=_intent(attempt, reading, planned, name),
        digest_key_id=derived_keys.digest_key_id(),
        stale_since="",
        destination=unit.destination.name,
    )
    if unit.ledger is None:
        saved = ledger_records.create(ledger, unit.destination)
    else:
        saved = ledger_records.save(ledger)
    if saved is None:
        raise TaskError("destination_busy", "the ledger has moved meanwhile")
    unit.ledger, planned.journal, planned.older = saved, name, journal
    if before and before != name:
        journals.delete(before)


def _intent(attempt: Attempt, reading: RefState, planned: Planned, journal: str) -> Intent:
    unit, now = planned.unit, attempt.now()
    digest_key = derived_keys.digest_key()
    state = State(
        commit=reading.head,
        ref=reading.event.ref,
        rule_digest=reading.rule_digest,
        generation=unit.generation,
        at=now,
        task_id=attempt.task.id,
        override_commit=reading.override_commit,
        files=unit.files.files,
        keys=applied_keys(planned.request, planned.plan, digest_key),
    )
    retained = retained_keys(
        planned.plan, unit.ledger, planned.request.live, digest_key=digest_key, now=now
    )
    return Intent(state=state, journal=journal, retained=retained)


def _fresh(part: RuleSync, unit: Unit) -> Ledger:
    place = unit.place
    return Ledger(
        unit_id="",
        rule_id=place.rule,
        tenant=place.tenant,
        platform=part.rule.platform,
        datasource=place.datasource,
        kind=unit.destination.kind,
        repo=place.repo,
        env=place.env,
        destination=unit.destination.name,
        destination_id=unit.destination.id,
        digest_key_id=derived_keys.digest_key_id(),
    )


def commit_intent(ledger: Ledger) -> Ledger:
    """One write: `applied = intent` (4.8 step 9). What somebody else has finished stays so."""
    current: Ledger | None = ledger
    while current is not None and current.intent is not None:
        intent = current.intent
        wanted = replace(current, applied=intent.state, intent=None, retained=intent.retained)
        if saved := ledger_records.save(wanted):
            if intent.journal:
                journals.delete(intent.journal)
            return saved
        current = ledgers.get(ledger.unit_id)
        if current and current.intent and current.intent.state != intent.state:
            break
    return current or ledger


def leftovers(attempt: Attempt, part: RuleSync, others: Iterable[Unit] = ()) -> list[Unit]:
    """Units of the part's rule and ref with an intent, but not `others`; a dry run touches none."""
    if part.rule.dry_run:
        return []
    handled = {(unit.place.env, unit.destination.id) for unit in others}
    return [
        _unfinished_target(attempt, ledger, destination)
        for ledger, destination in ledgers.with_intents(part.rule.name, part.event.repo)
        if (ledger.env, destination.id) not in handled
        and ledger.datasource == part.rule.datasource
        and ledger.intent
        and ledger.intent.state.ref == part.event.ref
    ]


def recover_targets(attempt: Attempt, part: RuleSync) -> None:
    """Of a part that fails for good. Raises TaskError, SinkError, LostTask."""
    if units := leftovers(attempt, part):
        with held(attempt, units):
            restore_units(attempt, units)


def restore_units(attempt: Attempt, units: Sequence[Unit]) -> None:
    """Those that still have their intents now that they are held."""
    for unit in units:
        ledger = ledgers.get(unit.ledger.unit_id) if unit.ledger else None
        if ledger is None or ledger.intent is None:
            continue
        unit.ledger = ledger
        if is_committed(ledger):
            commit_intent(ledger)
        else:
            give_back(attempt, unit, ledger, _restore_marker(attempt, unit, ledger))


def _unfinished_target(attempt: Attempt, ledger: Ledger, destination: Destination) -> Unit:
    sink = attempt.ports.open_sink(attempt.bundle.datasource(ledger.datasource))
    place = TargetPlace(
        rule=ledger.rule_id,
        tenant=ledger.tenant,
        datasource=ledger.datasource,
        env=ledger.env,
        repo=ledger.repo,
    )
    return Unit(
        files=UnitFiles(env=ledger.env),
        place=place,
        destination=destination,
        sink=GuardedSink(sink, attempt.beat),
        ledger=ledger,
    )


def _restore_marker(attempt: Attempt, unit: Unit, ledger: Ledger) -> TargetMarker:
    """Of what is given back: the commit before."""
    assert ledger.intent is not None
    state = ledger.applied or ledger.intent.state
    return TargetMarker(
        rule=ledger.rule_id,
        repo=ledger.repo,
        env=ledger.env,
        generation=unit.generation,
        tenant=ledger.tenant,
        datasource=ledger.datasource,
        ref=state.ref,
        commit=state.commit,
        tags=dict(attempt.bundle.global_tags),
        updated_at=attempt.now(),
    )
