"""What a ref is now: its head, and whether that is what the task should bring.

(reference: sync-stack 4.4)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sync_stack.core.bundle.rules import Rule
from sync_stack.core.events import Effect, Event, EventKind
from sync_stack.core.tasks import MAX_LAGS, TaskError
from sync_stack.orchestrator.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.execution.repository_overrides import overrides_at
from sync_stack.orchestrator.execution.sources import git_source, rule_digest
from sync_stack.orchestrator.rows import refs, tasks
from sync_stack.orchestrator.rows.refs import GONE, Record, RefName
from sync_stack.platforms import git_platform
from sync_stack.repositories import Remote, Source

MIN_PREFIX: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class RefState:
    """`head` is the commit to bring; GONE when the ref is no more. `rule` has overrides applied."""

    source: Source
    remote: Remote
    head: str
    event: Event
    rule: Rule
    rule_digest: str
    override_commit: str = ""
    warnings: tuple[str, ...] = ()
    closed: bool = False

    @property
    def gone(self) -> bool:
        return self.head == GONE


def read_ref(attempt: Attempt, part: RuleSync) -> RefState:
    """Ask the remote. Raises GitError, and TaskError(ref_lagging) while the host lags behind."""
    attempt.beat.check()
    platform = attempt.bundle.platform(part.rule.platform)
    source = git_source(platform, part.rule, part.event.repo, attempt.ports.resolve)
    remote = attempt.ports.repositories.ls_remote(source)
    head = attempt.heads[part.key] = remote.refs.get(part.event.ref, GONE)
    closed = _closes(attempt, part)
    if head != GONE and not closed:
        _refuse_lag(attempt, part, head)
    default = remote.refs.get(f"refs/heads/{remote.head_branch}", "")
    own = overrides_at(attempt, source, part.rule, default)
    return RefState(
        source=source,
        remote=remote,
        head=head,
        event=replace(part.event, default_branch=remote.head_branch),
        rule=own.rule,
        rule_digest=rule_digest(attempt.bundle, part.rule),
        override_commit=own.commit,
        warnings=own.warnings,
        closed=closed,
    )


def ref_name(part: RuleSync) -> RefName:
    return RefName(rule=part.rule.name, repo=part.event.repo, ref=part.event.ref)


def _closes(attempt: Attempt, part: RuleSync) -> bool:
    """Whether the pull request is closed by this event, or was by a later one already handled."""
    if part.event.kind is not EventKind.PULL_REQUEST:
        return False
    platform = git_platform(attempt.bundle.platform(part.rule.platform))
    later = later_record(part)
    action = later.seen.action if later and later.seen else part.event.action
    return platform.effect(action) is Effect.CLOSE


def later_record(part: RuleSync) -> Record | None:
    """The ref's record, if a later event of the pull request has been handled."""
    record = refs.find(ref_name(part))
    mine = part.event.as_dict().get("pr_time", "")
    return record if record and mine and record.pr_time > mine else None


def _refuse_lag(attempt: Attempt, part: RuleSync, head: str) -> None:
    """The event names a commit that the host does not show yet, and shows one that we know.

    Not waited for where other deliveries tell that the ref has left that commit.
    """
    commit = part.event.commit
    if not commit or is_same(head, commit) or attempt.lags >= MAX_LAGS:
        return
    record = refs.find(ref_name(part))
    recent = record.recent if record else ()
    if any(is_same(known, commit) for known in recent):
        return
    known_head = head == part.event.before or head in recent
    if known_head and not tasks.outdated_tasks(attempt.task.coalesce_key, [attempt.task], {head}):
        raise TaskError("ref_lagging", f"the host does not show {commit[:12]} yet")


def is_same(commit: str, other: str) -> bool:
    """Whether one names the other; platforms may give a prefix."""
    short, long = sorted((commit, other), key=len)
    return len(short) >= MIN_PREFIX and long.startswith(short)
