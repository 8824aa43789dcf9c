"""Refs: the repository of a rule, the state of a ref at the remote, and what is recorded of it.

(reference: sync-stack 1.5, 4.4, 4.9)
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Final

from kernel import clock
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.events import Effect, Event, EventKind, ref_fields
from sync_stack.core.git_platform import git_platform
from sync_stack.core.overrides import FILE_NAME, MAX_BYTES, apply_overrides
from sync_stack.core.tasks import MAX_LAGS, State, TaskError
from sync_stack.orchestrator.derived_keys import digest_key_id
from sync_stack.orchestrator.domain.identity import GONE, ObservedRef, RecordedRef, RefName
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome
from sync_stack.orchestrator.selectors import ledgers, refs, tasks
from sync_stack.orchestrator.services import ledger_records, ref_records
from sync_stack.orchestrator.services.execution.attempt import Attempt, Resolve, RuleSync
from sync_stack.repositories import GitError, Remote, RepositorySource
from sync_stack.repositories.entry import readable

log: Final = logging.getLogger(__name__)
_PERMANENT: Final = ("path_is_symlink", "path_is_submodule", "lfs_pointer", "file_too_large")
MIN_PREFIX: Final = 7
_APPLIED = ("completed", "no_changes")
_UNPARSED = frozenset(
    {"parse_error", "unsupported_expression", "unknown_format", "root_key_missing"}
)


def git_source(
    platform: Platform, rule: Rule | None, repo: str, resolve: Resolve
) -> RepositorySource:
    """Return URL and credentials of a repository, from the bundle only. Raises SecretError."""

    def secret(ref: SecretRef | None) -> str:
        return resolve(ref, None) if ref else ""

    password = secret(platform.token) or secret(platform.password)
    user = platform.username or git_platform(platform).clone_user
    return RepositorySource(
        url=(rule.repo_url if rule else "") or git_platform(platform).clone_url(platform, repo),
        username=user if password else "",
        password=password,
        private_key=secret(platform.ssh_private_key),
        passphrase=secret(platform.ssh_passphrase),
        known_hosts=platform.known_hosts,
        verify_ssl=platform.verify_ssl,
        ca_cert=platform.ca_cert,
        timeout_s=platform.timeout_s,
    )


def rule_digest(bundle: Bundle, rule: Rule) -> str:
    """Return a digest of the rule and its datasource; secrets count as references."""
    known = [_plain(rule), _plain(bundle.datasource(rule.datasource)), digest_key_id()]
    text = json.dumps(known, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    match value:
        case SecretRef():
            plain: Any = str(value)
        case Enum():
            plain = value.value
        case Mapping():
            plain = {str(key): _plain(entry) for key, entry in value.items()}
        case tuple() | list():
            plain = [_plain(entry) for entry in value]
        case _ if is_dataclass(value):
            plain = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
        case _:
            plain = value
    return plain


def event_for(bundle: Bundle, rule: Rule, repo: str, ref: str) -> Event:
    """Return an event for the current state of a ref, without a commit. Raises BadPayload.

    A pull request is as its last event said; without one it counts as a fork's.
    """
    platform = bundle.platform(rule.platform)
    url = rule.repo_url or git_platform(platform).clone_url(platform, repo)
    name = RefName(rule=rule.name, repo=repo, ref=ref)
    return event_of_ref(name, refs.find(name), platform=platform.name, clone_url=url)


def event_of_ref(
    name: RefName, record: RecordedRef | None, *, platform: str, clone_url: str
) -> Event:
    """Return the event of `event_for`; a sync takes the address of the bundle, not `clone_url`."""
    event = partial(Event, platform=platform, repo=name.repo, clone_url=clone_url)
    ref = name.ref
    pull = pull_request_of(ref)
    if not pull:
        return event(**ref_fields(ref))
    observed = record.observed if record else None
    return event(
        kind=EventKind.PULL_REQUEST,
        ref=ref,
        pr=pull,
        action=observed.action if observed else "",
        fork=observed is None or observed.fork,
    )


def pull_request_of(ref: str) -> int:
    """Return the number in the ref of a pull request, 0 for other refs."""
    parts = ref.split("/")
    if parts[:1] != ["refs"] or parts[1:2] not in (["pull"], ["merge-requests"], ["pull-requests"]):
        return 0
    return int(parts[2]) if parts[2].isascii() and parts[2].isdigit() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWithOverrides:
    """A rule with the overrides of a repository; `commit` is where they were read, or empty."""

    rule: Rule
    commit: str = ""
    warnings: tuple[str, ...] = ()


def overrides_at(
    attempt: Attempt, source: RepositorySource, rule: Rule, commit: str
) -> RuleWithOverrides:
    """Apply `partita.json` of a commit of the default branch to a rule. Raises GitError."""
    if rule.allow_overrides is False or not commit:
        return RuleWithOverrides(rule=rule)
    try:
        entry = readable(attempt.tree(source, commit), FILE_NAME)
        read = attempt.ports.repositories.content
        content = read(source, entry, max_bytes=MAX_BYTES) if entry else None
        found = apply_overrides(rule, content)
    except GitError as error:
        if error.code not in _PERMANENT:
            raise
        return _with_warning(rule, commit, f"{FILE_NAME} is not used: {error.detail}")
    if found.ignored:
        log.info("%s of %s: ignored %s", FILE_NAME, source.url, ", ".join(found.ignored))
    return _with_warning(found.rule, commit, found.warning)


def _with_warning(rule: Rule, commit: str, warning: str) -> RuleWithOverrides:
    return RuleWithOverrides(rule=rule, commit=commit, warnings=(warning[:500],) if warning else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class RefState:
    """A ref at the remote. `head` is GONE if the ref is gone; `rule` has overrides applied."""

    sync: RuleSync
    source: RepositorySource
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


def read_ref(attempt: Attempt, sync: RuleSync) -> RefState:
    """Read a ref from the remote. Raises GitError, and TaskError(ref_lagging) if the host lags."""
    attempt.heartbeat.check()
    platform = attempt.bundle.platform(sync.rule.platform)
    source = git_source(platform, sync.rule, sync.event.repo, attempt.ports.resolve)
    remote = attempt.ports.repositories.ls_remote(source)
    head = attempt.heads[sync.key] = remote.refs.get(sync.event.ref, GONE)
    closed = _closes(attempt, sync)
    if head != GONE and not closed:
        _refuse_lag(attempt, sync, head)
    default = remote.refs.get(f"refs/heads/{remote.head_branch}", "")
    own = overrides_at(attempt, source, sync.rule, default)
    return RefState(
        sync=sync,
        source=source,
        remote=remote,
        head=head,
        event=replace(sync.event, default_branch=remote.head_branch),
        rule=own.rule,
        rule_digest=rule_digest(attempt.bundle, sync.rule),
        override_commit=own.commit,
        warnings=own.warnings,
        closed=closed,
    )


def ref_name(sync: RuleSync) -> RefName:
    return RefName(rule=sync.rule.name, repo=sync.event.repo, ref=sync.event.ref)


def _closes(attempt: Attempt, sync: RuleSync) -> bool:
    """Return whether this event, or a later one already handled, closes the pull request."""
    if sync.event.kind is not EventKind.PULL_REQUEST:
        return False
    platform = git_platform(attempt.bundle.platform(sync.rule.platform))
    later = later_record(sync)
    action = later.observed.action if later and later.observed else sync.event.action
    return platform.effect(action) is Effect.CLOSE


def later_record(sync: RuleSync) -> RecordedRef | None:
    """Return the ref record if a later event of the pull request has been handled."""
    record = refs.find(ref_name(sync))
    time = sync.event.as_dict().get("pr_time", "")
    return record if record and time and record.pr_time > time else None


def _refuse_lag(attempt: Attempt, sync: RuleSync, head: str) -> None:
    """Raise TaskError(ref_lagging) if the host shows a known commit but not yet the event's.

    Other deliveries may show that the ref has left that commit: then there is no wait.
    """
    commit = sync.event.commit
    if not commit or is_same(head, commit) or attempt.lags >= MAX_LAGS:
        return
    record = refs.find(ref_name(sync))
    recent = record.recent if record else ()
    if any(is_same(known, commit) for known in recent):
        return
    known_head = head == sync.event.before or head in recent
    if known_head and not tasks.outdated_tasks(attempt.task.coalesce_key, [attempt.task], {head}):
        raise TaskError("ref_lagging", f"the Git host does not show {commit[:12]} yet")


def is_same(commit: str, other: str) -> bool:
    """Return whether two names mean the same commit; platforms may give a prefix."""
    short, long = sorted((commit, other), key=len)
    return len(short) >= MIN_PREFIX and long.startswith(short)


def mark_failure(sync: RuleSync, error: TaskError) -> None:
    """Mark targets as stale that cannot follow Git after this error.

    All of the repository's while it cannot be read; those of the ref while its head cannot be
    parsed.
    """
    rule, event = sync.rule.name, sync.event
    if error.code.startswith("git_"):
        targets = set(ledgers.versions(rule, event.repo))
    elif error.code in _UNPARSED:
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
        if record and record.observed and record.observed.outcome in _UNPARSED
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
        ref_records.update(fresh, _change(attempt, sync, outcome, state))


def _change(
    attempt: Attempt, sync: RuleSync, outcome: RuleSyncOutcome, state: State
) -> Callable[[RecordedRef], RecordedRef]:
    digest = outcome.rule_digest or rule_digest(attempt.bundle, sync.rule)
    pr_time = sync.event.as_dict().get("pr_time", "")
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
