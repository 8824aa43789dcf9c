"""Ref records: what a task leaves behind about the refs it handled (contract 4.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sync_stack.core.tasks import State
from sync_stack.orchestrator.execution.attempt import Attempt, Part
from sync_stack.orchestrator.execution.reading import ref_name
from sync_stack.orchestrator.execution.sources import rule_digest
from sync_stack.orchestrator.rows import refs
from sync_stack.orchestrator.rows.refs import Record, Seen

_APPLIED = ("completed", "no_changes")


def record_refs(attempt: Attempt, parts: list[Part], state: State) -> None:
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
    attempt: Attempt, part: Part, outcome: dict[str, Any], state: State, digest: str
) -> Any:
    pr_time = part.event.as_dict().get("pr_time", "")

    def change(record: Record) -> Record:
        dead = (record.seen.dead if record.seen else 0) + 1 if state is State.DEAD else 0
        latest = record.seen if record.seen and pr_time < record.pr_time else part.event
        seen = Seen(
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
