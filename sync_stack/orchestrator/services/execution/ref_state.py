"""The state of a ref: its head, overrides, environment, files and tree, read from its repository.

(reference: sync-stack 1.5, 4.3, 4.4, 4.9)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.environments import (
    TargetFiles,
    environment_of_ref,
    is_cleaned_up,
    target_files,
)
from sync_stack.core.events import Effect, Event, EventKind
from sync_stack.core.git_platform import git_platform
from sync_stack.core.ledger import TargetState
from sync_stack.core.overrides import FILE_NAME, MAX_BYTES, apply_overrides
from sync_stack.core.tasks import MAX_LAGS, TaskError
from sync_stack.orchestrator.domain.identity import GONE
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome
from sync_stack.orchestrator.selectors import refs, tasks
from sync_stack.orchestrator.services.execution.attempt import Attempt, Resolve, RuleSync
from sync_stack.orchestrator.services.ref_records import later_record, mark_read, ref_name
from sync_stack.repositories import GitError, RepositorySource, TreeEntry
from sync_stack.repositories.entry import readable

log: Final = logging.getLogger(__name__)
_PERMANENT: Final = ("path_is_symlink", "path_is_submodule", "lfs_pointer", "file_too_large")
MIN_PREFIX: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class RefState:
    """A ref at the remote, or the commit that a heal goes back to.

    `head` is GONE if the ref is gone; `rule` has overrides applied. `tree`: path → entry of the
    head; None where it is not read: the ref is gone, closed or not mapped. `files`: of each
    environment to sync, or, without a tree, to clean up. `message`: why there is none, or what
    is said if nothing was written there.
    """

    sync: RuleSync
    source: RepositorySource
    head: str
    event: Event
    rule: Rule
    rule_digest: str
    override_commit: str = ""
    warnings: tuple[str, ...] = ()
    tree: Mapping[str, TreeEntry] | None = None
    files: tuple[TargetFiles, ...] = ()
    message: str = ""

    def outcome(self) -> RuleSyncOutcome:
        """Return the outcome of a rule sync of the ref that did nothing."""
        return RuleSyncOutcome(message=self.message, commit=self.head, rule_digest=self.rule_digest)


def read_ref(attempt: Attempt, sync: RuleSync) -> RefState:
    """Read a ref from the remote. Raises GitError, and TaskError(ref_lagging) if the host lags.

    A ref that is gone has a clean-up, and a pull request that is closed, unless a later event of
    it was handled.
    """
    source = _source(attempt, sync)
    remote = attempt.ports.repositories.ls_remote(source)
    head = attempt.heads[sync.key] = remote.refs.get(sync.event.ref, GONE)
    closed = _closes(attempt, sync)
    if head != GONE and not closed:
        _refuse_lag(attempt, sync, head)
    default = remote.refs.get(f"refs/heads/{remote.head_branch}", "")
    own = _overrides_at(attempt, source, sync.rule, default)
    event = replace(sync.event, default_branch=remote.head_branch)
    found = environment_of_ref(own.rule, event, default_branch=remote.head_branch, refs=remote.refs)
    tree: Mapping[str, TreeEntry] | None = None
    files: tuple[TargetFiles, ...] = ()
    if found.word:
        message = found.word
    elif head == GONE or closed:
        message = "ref_deleted" if head == GONE else "pull_request_ignored"
        if is_cleaned_up(own.rule, found) and not later_record(sync):
            files = (TargetFiles(env=found.environment),)
    else:
        message = "no_files"
        tree = _tree(attempt, source, head, ref=event.ref)
        mark_read(sync)
        files = target_files(own.rule, found, tree)
    return RefState(
        sync=sync,
        source=source,
        head=head,
        event=event,
        rule=own.rule,
        rule_digest=sync.digest,
        override_commit=own.commit,
        warnings=own.warnings,
        tree=tree,
        files=files,
        message=message,
    )


def read_baseline(attempt: Attempt, sync: RuleSync, env: str, applied: TargetState) -> RefState:
    """Read the commit that was applied to a target, whatever the ref is now. Raises GitError."""
    source = _source(attempt, sync)
    own = _overrides_at(attempt, source, sync.rule, applied.override_commit)
    tree = _tree(attempt, source, applied.commit, ref=sync.event.ref)
    files = TargetFiles(env=env, files=applied.files, missing=applied.missing_files())
    return RefState(
        sync=sync,
        source=source,
        head=applied.commit,
        event=sync.event,
        rule=own.rule,
        rule_digest=applied.rule_digest,
        override_commit=applied.override_commit,
        tree=tree,
        files=(files,),
    )


def _source(attempt: Attempt, sync: RuleSync) -> RepositorySource:
    platform = attempt.bundle.platform(sync.rule.platform)
    return git_source(platform, sync.rule, sync.event.repo, attempt.ports.resolve)


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


def _tree(
    attempt: Attempt, source: RepositorySource, commit: str, *, ref: str = ""
) -> Mapping[str, TreeEntry]:
    """Return the files of a commit, which is fetched once. Raises GitError."""
    key, repositories = (source, commit), attempt.ports.repositories
    if key not in attempt.trees:
        repositories.fetch(source, commit, ref=ref)
        attempt.trees[key] = repositories.tree(source, commit)
    return attempt.trees[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWithOverrides:
    """A rule with the overrides of a repository; `commit` is where they were read, or empty."""

    rule: Rule
    commit: str = ""
    warnings: tuple[str, ...] = ()


def _overrides_at(
    attempt: Attempt, source: RepositorySource, rule: Rule, commit: str
) -> RuleWithOverrides:
    """Apply `partita.json` of a commit of the default branch to a rule. Raises GitError."""
    if rule.allow_overrides is False or not commit:
        return RuleWithOverrides(rule=rule)
    try:
        tree = _tree(attempt, source, commit)
        entry = readable(tree, FILE_NAME)
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


def _closes(attempt: Attempt, sync: RuleSync) -> bool:
    """Return whether this event, or a later one already handled, closes the pull request."""
    if sync.event.kind is not EventKind.PULL_REQUEST:
        return False
    platform = git_platform(attempt.bundle.platform(sync.rule.platform))
    later = later_record(sync)
    action = later.observed.action if later and later.observed else sync.event.action
    return platform.effect(action) is Effect.CLOSE


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
