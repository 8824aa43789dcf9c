"""Purge an orphan: delete what a target owns that no rule produces (reference: sync-stack 4.7)."""

from __future__ import annotations

from dataclasses import replace

from sync_stack.core.bundle.rules import Rule
from sync_stack.core.events import Event, EventKind
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import TargetPlace
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import ledger_records
from sync_stack.orchestrator.services.execution import results
from sync_stack.orchestrator.services.execution.apply import clean_up
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.heartbeat import GuardedSink
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.targets import (
    Target,
    TargetFiles,
    is_orphan,
    lock_destinations,
)
from sync_stack.repositories import Remote, Source


def purge_sync_of(attempt: Attempt) -> RuleSync | None:
    """Return a sync of the target's rule, or of a substitute; None without a target."""
    row = ledgers.get_row(attempt.request.purge)
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


def run_purge(attempt: Attempt, sync: RuleSync) -> RuleSyncOutcome:
    """Delete what an orphan owns, except protected keys and those with the marker of another.

    Raises TaskError, SinkError, RuleSyncFailed, LostTask.
    """
    row = ledgers.get_row(attempt.request.purge)
    if row is None or not is_orphan(attempt.bundle, row, attempt.ports.open_sink):
        return attempt.finish_rule_sync(sync, results.outcome("superseded"))
    target = _purged_target(attempt, row)
    with lock_destinations(attempt, [target]):
        target.ledger = ledgers.get(row.id)
        if target.ledger is None:
            return attempt.finish_rule_sync(sync, results.outcome("superseded"))
        outcome = clean_up(attempt, _purge_state(sync, target.ledger), [target])
        if not target.ledger.retained:
            ledger_records.delete(target.ledger.unit_id, target.ledger.version)
        return outcome


def _purged_target(attempt: Attempt, row: LedgerTarget) -> Target:
    known = {each.name: each for each in attempt.bundle.datasources}
    if row.datasource not in known:
        detail = f"datasource {row.datasource!r} is not in the bundle: release the target instead"
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
    places = (place, replace(place, rendered=""))  # the same host, database, bucket or folder?
    if all(sink.destination(each).id != row.destination_id for each in places):
        detail = (
            f"datasource {row.datasource!r} now points to another place: release the target instead"
        )
        raise TaskError("destination_invalid", detail)
    return Target(
        files=TargetFiles(env=row.env),
        place=place,
        destination=ledgers.destination_of(row),
        sink=GuardedSink(sink, attempt.heartbeat),
        ledger=None,
    )


def _purge_state(sync: RuleSync, ledger: Ledger) -> RefState:
    """Return a closed ref: nothing is read from Git, and the rule's own protection applies."""
    applied = ledger.applied
    return RefState(
        source=Source(url=""),
        remote=Remote(head_branch=""),
        head=applied.commit if applied else "",
        sync=sync,
        event=sync.event,
        rule=sync.rule,
        rule_digest=applied.rule_digest if applied else "",
        closed=True,
    )
