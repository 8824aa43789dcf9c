"""What a lost attempt left half written, where nobody brings it on.

A unit that a part brings up to date is settled on the way. Another one may have an intent too: its
ref is gone since, its destination has moved, or the part fails for good before it comes to it.

(reference: sync-stack 4.8, restore)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination, TargetMarker, TargetPlace
from sync_stack.orchestrator.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.execution.destination_lock import held
from sync_stack.orchestrator.execution.heartbeat import GuardedSink
from sync_stack.orchestrator.execution.intents import commit_intent, give_back, is_committed
from sync_stack.orchestrator.execution.units import Unit, UnitFiles
from sync_stack.orchestrator.rows import ledgers


def leftovers(attempt: Attempt, part: RuleSync, others: Iterable[Unit] = ()) -> list[Unit]:
    """Units of the part's rule and ref with an intent, but not `others`; a dry run touches none."""
    if part.rule.dry_run:
        return []
    handled = {(unit.place.env, unit.destination.id) for unit in others}
    return [
        _unit(attempt, ledger, destination)
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
            give_back(attempt, unit, ledger, _mark(attempt, unit, ledger))


def _unit(attempt: Attempt, ledger: Ledger, destination: Destination) -> Unit:
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


def _mark(attempt: Attempt, unit: Unit, ledger: Ledger) -> TargetMarker:
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
