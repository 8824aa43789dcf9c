"""Writes of ref records: what a task observed of a ref, and the stale marks of its targets.

(reference: sync-stack 4.4)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypedDict

from kernel import clock
from sync_stack.core.tasks import State, TaskError
from sync_stack.orchestrator.domain.identity import ObservedRef, RecordedRef, RefName
from sync_stack.orchestrator.domain.target_lag import UNPARSED, UNREAD_PREFIX
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome
from sync_stack.orchestrator.models import RefRecord
from sync_stack.orchestrator.selectors import ledgers, refs
from sync_stack.orchestrator.services import ledger_records
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync

_RACES: Final = 20
_APPLIED: Final = ("completed", "no_changes")


class RefColumns(TypedDict):
    """The columns of a ref record but its id and version."""

    rule_id: str
    repo: str
    ref: str
    platform: str
    datasource: str
    seen: dict[str, object]
    recent: list[str]
    pr_time: str


def update(fresh: RecordedRef, change: Callable[[RecordedRef], RecordedRef]) -> RecordedRef:
    """Apply `change` to the stored record, or to `fresh` if none is stored; return the result."""
    for _ in range(_RACES):
        row = RefRecord.objects.filter(id=fresh.name.hash).first()
        wanted = change(refs.ref_record_of(row) if row else fresh)
        if row is None:
            if RefRecord(id=fresh.name.hash, version=1, **_columns(wanted)).insert():
                return wanted
            continue
        rows = RefRecord.objects.filter(id=row.id, version=row.version)
        if rows.update(version=row.version + 1, **_columns(wanted)):
            return wanted
    raise RuntimeError(f"the record of {fresh.name.ref} keeps changing")


def delete(record_id: str, task_id: str) -> None:
    """Delete a record that still names this task."""
    for row in RefRecord.objects.filter(id=record_id):
        if row.seen.get("task_id", "") == task_id:
            RefRecord.objects.filter(id=record_id, version=row.version).delete()


def _columns(record: RecordedRef) -> RefColumns:
    observed = record.observed
    return {
        "rule_id": record.name.rule,
        "repo": record.name.repo,
        "ref": record.name.ref,
        "platform": record.platform,
        "datasource": record.datasource,
        "seen": {name: getattr(observed, name) for name in ObservedRef.__slots__}
        if observed
        else {},
        "recent": list(record.recent),
        "pr_time": record.pr_time,
    }


def ref_name(sync: RuleSync) -> RefName:
    return RefName(rule=sync.rule.name, repo=sync.event.repo, ref=sync.event.ref)


def _pr_time(sync: RuleSync) -> str:
    """Return the time of the event of a pull request, or an empty text."""
    return clock.rfc3339(sync.event.pr_time) if sync.event.pr_time else ""


def later_record(sync: RuleSync) -> RecordedRef | None:
    """Return the ref record if a later event of the pull request has been handled."""
    record = refs.find(ref_name(sync))
    time = _pr_time(sync)
    return record if record and time and record.pr_time > time else None


def mark_failure(sync: RuleSync, error: TaskError) -> None:
    """Mark targets as stale that cannot follow Git after this error.

    All of the repository's while it cannot be read; those of the ref while its head cannot be
    parsed.
    """
    rule, event = sync.rule.name, sync.event
    if error.code.startswith(UNREAD_PREFIX):
        targets = set(ledgers.versions(rule, event.repo))
    elif error.code in UNPARSED:
        targets = set(ledgers.intents_of_ref(rule, event.repo, event.ref))
    else:
        return
    ledger_records.mark_stale(targets, clock.rfc3339(clock.now()))


def mark_read(sync: RuleSync) -> None:
    """Unmark the targets of a repository that was read, except refs whose head was not parsed."""
    rule, repo = sync.rule.name, sync.event.repo
    records = [
        refs.find(RefName(rule=rule, repo=repo, ref=ref)) for ref in ledgers.stale_refs(rule, repo)
    ]
    unparsed = {
        record.name.ref
        for record in records
        if record and record.observed and record.observed.outcome in UNPARSED
    }
    ledger_records.unmark_stale(rule, repo, but=unparsed)


def mark_success(sync: RuleSync) -> None:
    """Unmark the targets of a ref whose head was synced."""
    ledger_records.unmark_stale_of_ref(sync.rule.name, sync.event.repo, sync.event.ref)


def record_refs(attempt: Attempt, syncs: list[RuleSync], state: State) -> None:
    """Update the ref records of a task that is about to end.

    An earlier attempt's result, or a failure before the ref was read, does not tell what other
    tasks have applied since. Unless this task recorded the ref before, it is recorded without the
    rule's digest: the next reconcile looks.
    """
    for sync in syncs:
        outcome = attempt.done.get(sync.key) or attempt.failing.get(sync.key)
        if outcome is None:
            outcome = RuleSyncOutcome(message=str(state))
        if outcome.message == "pull_request_action_ignored":
            continue  # the ref was not read
        fresh = RecordedRef(
            name=ref_name(sync),
            platform=sync.rule.platform,
            datasource=sync.rule.segment,
        )
        update(fresh, _change(attempt, sync, outcome, state))


def _change(
    attempt: Attempt, sync: RuleSync, outcome: RuleSyncOutcome, state: State
) -> Callable[[RecordedRef], RecordedRef]:
    digest = outcome.rule_digest or sync.digest
    pr_time = _pr_time(sync)
    repeated = sync.key in attempt.done and sync.key not in attempt.heads

    def change(record: RecordedRef) -> RecordedRef:
        others = record.observed is not None and record.observed.task_id != attempt.task.id
        dead = (record.observed.dead if record.observed else 0) + 1 if state is State.DEAD else 0
        latest = record.observed if record.observed and pr_time < record.pr_time else sync.event
        observed = ObservedRef(
            commit=outcome.commit,
            rule_digest="" if repeated and others else digest,
            outcome=outcome.message,
            task_id=attempt.task.id,
            dead=dead,
            action=latest.action,
            fork=latest.fork,
        )
        found = replace(record, observed=observed, pr_time=max(record.pr_time, pr_time))
        return found.with_applied_commit(observed.commit) if outcome.message in _APPLIED else found

    return change
