"""Purges: an operator lets everything go that an orphan wrote (reference: sync-stack 4.7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sync_stack.core.bundle.rules import Rule
from sync_stack.core.events import Event, EventKind
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Sink, TargetPlace
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.execution import results
from sync_stack.orchestrator.execution.applying import clean_up
from sync_stack.orchestrator.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.execution.destination_lock import held
from sync_stack.orchestrator.execution.heartbeat import GuardedSink
from sync_stack.orchestrator.execution.orphans import is_orphan
from sync_stack.orchestrator.execution.ref_state import RefState
from sync_stack.orchestrator.execution.units import Unit, UnitFiles
from sync_stack.orchestrator.models import LedgerUnit
from sync_stack.orchestrator.rows import ledgers
from sync_stack.repositories import Remote, Source


def part_of_purge(attempt: Attempt) -> RuleSync | None:
    """The unit's rule, or, when that is gone, what stands for it; None without such a unit."""
    row = ledgers.row(attempt.task.request["purge"])
    if row is None:
        return None
    known = next((rule for rule in attempt.bundle.rules if rule.name == row.rule_id), None)
    rule = known or Rule(
        name=row.rule_id,
        platform=row.platform,
        datasource=row.datasource,
        segment=row.datasource,
        repositories=(row.repo,),
    )
    event = Event(
        platform=row.platform, kind=EventKind.PUSH, repo=row.repo, clone_url="", ref=row.ref
    )
    return RuleSync(rule=replace(rule, dry_run=False), event=event)


def purge_part(attempt: Attempt, part: RuleSync) -> dict[str, Any]:
    """Everything the unit owns goes but protected keys and those that bear another's marker.

    Raises TaskError, SinkError, RuleSyncFailed, LostTask.
    """
    row = ledgers.row(attempt.task.request["purge"])
    if row is None or not is_orphan(attempt.bundle, row, attempt.ports.open_sink):
        return _finished(attempt, part, "superseded")
    unit = _unit(attempt, row)
    with held(attempt, [unit]):
        unit.ledger = ledgers.get(row.id)
        if unit.ledger is None:
            return _finished(attempt, part, "superseded")
        outcome = clean_up(attempt, part, _reading(part, unit.ledger), [unit])
        if not unit.ledger.retained:
            ledgers.forget(unit.ledger.unit_id, unit.ledger.version)
        return outcome


def _finished(attempt: Attempt, part: RuleSync, word: str) -> dict[str, Any]:
    outcome = results.outcome(word)
    attempt.finish_part(part, outcome)
    return outcome


def _unit(attempt: Attempt, row: LedgerUnit) -> Unit:
    known = {each.name: each for each in attempt.bundle.datasources}
    if row.datasource not in known:
        detail = f"datasource {row.datasource!r} is not in the bundle: release the unit instead"
        raise TaskError("destination_invalid", detail)
    sink = attempt.ports.open_sink(known[row.datasource])
    place = TargetPlace(
        rule=row.rule_id,
        tenant=row.tenant,
        datasource=row.datasource,
        env=row.env,
        repo=row.repo,
        rendered=row.destination,
    )
    if not _leads_there(sink, place, row.destination_id):
        detail = f"datasource {row.datasource!r} leads elsewhere now: release the unit instead"
        raise TaskError("destination_invalid", detail)
    return Unit(
        files=UnitFiles(env=row.env),
        place=place,
        destination=ledgers.destination_of(row),
        sink=GuardedSink(sink, attempt.beat),
        ledger=None,
    )


def _leads_there(sink: Sink, place: TargetPlace, destination_id: str) -> bool:
    """Whether it is the same host, database, bucket or folder as it was."""
    places = (place, replace(place, rendered=""))
    return any(sink.destination(each).id == destination_id for each in places)


def _reading(part: RuleSync, ledger: Ledger) -> RefState:
    """The rule's own protection holds; nothing is read from Git, and nothing is desired."""
    applied = ledger.applied
    return RefState(
        source=Source(url=""),
        remote=Remote(head_branch=""),
        head=applied.commit if applied else "",
        event=part.event,
        rule=part.rule,
        rule_digest=applied.rule_digest if applied else "",
        closed=True,
    )
