"""Ref records and staleness: what a task leaves behind about the refs it handled.

(reference: sync-stack 4.4)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernel import clock
from sync_stack.core.tasks import State, TaskError
from sync_stack.orchestrator.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.execution.ref_state import ref_name
from sync_stack.orchestrator.execution.sources import rule_digest
from sync_stack.orchestrator.rows import ledgers, refs
from sync_stack.orchestrator.rows.refs import ObservedRef, Record, RefName

_APPLIED = ("completed", "no_changes")
_UNPARSED = frozenset(
    {"parse_error", "unsupported_expression", "unknown_format", "root_key_missing"}
)


def mark_failure(part: RuleSync, error: TaskError) -> None:
    """Units that cannot follow Git now keep what they have and are `stale`.

    All of the repository's while it cannot be read; those of the ref while its head cannot be
    parsed.
    """
    rule, event = part.rule.name, part.event
    if error.code.startswith("git_"):
        units = set(ledgers.versions(rule, event.repo))
    elif error.code in _UNPARSED:
        units = set(ledgers.intents_of_ref(rule, event.repo, event.ref))
    else:
        return
    ledgers.mark_stale(units, clock.rfc3339(clock.now()))


def mark_read(part: RuleSync) -> None:
    """The repository could be read: only units of refs whose head was not parsed stay stale."""
    rule, repo = part.rule.name, part.event.repo
    unparsed = {ref for ref in ledgers.stale_refs(rule, repo) if _is_unparsed(rule, repo, ref)}
    ledgers.unmark_stale(rule, repo, but=unparsed)


def mark_success(part: RuleSync) -> None:
    """The head of the ref was brought."""
    ledgers.unmark_stale_of_ref(part.rule.name, part.event.repo, part.event.ref)


def _is_unparsed(rule: str, repo: str, ref: str) -> bool:
    record = refs.find(RefName(rule=rule, repo=repo, ref=ref))
    return record is not None and record.seen is not None and record.seen.outcome in _UNPARSED


def record_refs(attempt: Attempt, parts: list[RuleSync], state: State) -> None:
    """Written just before the task ends."""
    for part in parts:
        outcome = attempt.done.get(part.key) or attempt.failing.get(part.key) or {}
        if outcome.get("message") == "pull_request_action_ignored":
            continue  # nobody looked at the ref
        fresh = Record(
            name=ref_name(part),
            platform=part.rule.platform,
            datasource=part.rule.segment,
        )
        digest = outcome.get("rule_digest") or rule_digest(attempt.bundle, part.rule)
        refs.update(fresh, _change(attempt, part, outcome, state, digest))


def _change(
    attempt: Attempt, part: RuleSync, outcome: dict[str, Any], state: State, digest: str
) -> Any:
    pr_time = part.event.as_dict().get("pr_time", "")

    def change(record: Record) -> Record:
        dead = (record.seen.dead if record.seen else 0) + 1 if state is State.DEAD else 0
        latest = record.seen if record.seen and pr_time < record.pr_time else part.event
        seen = ObservedRef(
            commit=outcome.get("commit", ""),
            rule_digest=digest,
            outcome=outcome.get("message", str(state)),
            task_id=attempt.task.id,
            dead=dead,
            action=latest.action,
            fork=latest.fork,
        )
        found = replace(record, seen=seen, pr_time=max(record.pr_time, pr_time))
        applied = outcome.get("message") in _APPLIED
        return found.applied(seen.commit) if applied else found

    return change
