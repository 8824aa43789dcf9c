"""The state of a ref: its head, overrides, environment, files and tree, read from its repository.

(reference: sync-stack 4.3, 4.4, 4.9)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sync_stack.core.bundle.rules import OnMissingFile, Rule
from sync_stack.core.environments import EnvironmentSource, Resolution, mapped_branch, resolve, slug
from sync_stack.core.events import Effect, Event, EventKind
from sync_stack.core.formats import by_name
from sync_stack.core.git_platform import git_platform
from sync_stack.core.globs import is_literal, matches
from sync_stack.core.ledger import TargetState
from sync_stack.core.overrides import FILE_NAME, MAX_BYTES, apply_overrides
from sync_stack.core.tasks import MAX_LAGS, TaskError
from sync_stack.orchestrator.domain.identity import GONE
from sync_stack.orchestrator.domain.task_documents import (
    FileOutcome,
    RuleSyncOutcome,
    TargetOutcome,
)
from sync_stack.orchestrator.selectors import refs, tasks
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.rule_scope import git_source, rule_digest
from sync_stack.orchestrator.services.ref_records import later_record, mark_read, ref_name
from sync_stack.repositories import GitError, Remote, RepositorySource, TreeEntry
from sync_stack.repositories.entry import readable

log: Final = logging.getLogger(__name__)
_PERMANENT: Final = ("path_is_symlink", "path_is_submodule", "lfs_pointer", "file_too_large")
MIN_PREFIX: Final = 7
_UNMAPPED: Final = Resolution(source=EnvironmentSource.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFiles:
    """The files of one environment; `missing` are tracked but absent at the commit."""

    env: str
    files: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefState:
    """A ref at the remote, or the commit that a heal goes back to.

    `head` is GONE if the ref is gone; `rule` has overrides applied. `tree`: path → entry of the
    head; None where it is not read: the ref is gone, closed or not mapped. `files`: of each
    environment of the head.
    """

    sync: RuleSync
    source: RepositorySource
    head: str
    event: Event
    rule: Rule
    rule_digest: str
    override_commit: str = ""
    warnings: tuple[str, ...] = ()
    closed: bool = False
    found: Resolution = _UNMAPPED
    tree: Mapping[str, TreeEntry] | None = None
    files: tuple[TargetFiles, ...] = ()

    @property
    def gone(self) -> bool:
        return self.head == GONE

    def outcome(
        self,
        message: str,
        targets: Sequence[TargetOutcome] = (),
        files: Sequence[FileOutcome] = (),
    ) -> RuleSyncOutcome:
        """Return the outcome of a rule sync of the ref that did not fail."""
        return RuleSyncOutcome(
            message=message,
            targets=tuple(targets),
            files=tuple(files),
            commit=self.head,
            rule_digest=self.rule_digest,
        )


def read_ref(attempt: Attempt, sync: RuleSync) -> RefState:
    """Read a ref from the remote. Raises GitError, and TaskError(ref_lagging) if the host lags."""
    attempt.stage("git", 0.0)
    attempt.heartbeat.check()
    source = _source(attempt, sync)
    remote = attempt.ports.repositories.ls_remote(source)
    head = attempt.heads[sync.key] = remote.refs.get(sync.event.ref, GONE)
    closed = _closes(attempt, sync)
    if head != GONE and not closed:
        _refuse_lag(attempt, sync, head)
    default = remote.refs.get(f"refs/heads/{remote.head_branch}", "")
    own = _overrides_at(attempt, source, sync.rule, default)
    event = replace(sync.event, default_branch=remote.head_branch)
    found = _environment(own.rule, event, remote)
    tree = None
    if not (found.word or head == GONE or closed):
        tree = _tree(attempt, source, head, ref=event.ref)
        mark_read(sync)
    return RefState(
        sync=sync,
        source=source,
        head=head,
        event=event,
        rule=own.rule,
        rule_digest=rule_digest(attempt.bundle, sync.rule),
        override_commit=own.commit,
        warnings=own.warnings,
        closed=closed,
        found=found,
        tree=tree,
        files=_target_files(own.rule, found, tree) if tree is not None else (),
    )


def read_baseline(attempt: Attempt, sync: RuleSync, applied: TargetState) -> RefState:
    """Read the commit that was applied to a target, whatever the ref is now. Raises GitError."""
    source = _source(attempt, sync)
    own = _overrides_at(attempt, source, sync.rule, applied.override_commit)
    return RefState(
        sync=sync,
        source=source,
        head=applied.commit,
        event=sync.event,
        rule=own.rule,
        rule_digest=applied.rule_digest,
        override_commit=applied.override_commit,
        tree=_tree(attempt, source, applied.commit, ref=sync.event.ref),
    )


def _source(attempt: Attempt, sync: RuleSync) -> RepositorySource:
    platform = attempt.bundle.platform(sync.rule.platform)
    return git_source(platform, sync.rule, sync.event.repo, attempt.ports.resolve)


def _tree(
    attempt: Attempt, source: RepositorySource, commit: str, *, ref: str = ""
) -> Mapping[str, TreeEntry]:
    """Return the files of a commit, which is fetched once. Raises GitError."""
    known = attempt.trees.get((source, commit))
    if known is None:
        attempt.ports.repositories.fetch(source, commit, ref=ref)
        known = attempt.trees[source, commit] = attempt.ports.repositories.tree(source, commit)
    return known


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
        entry = readable(_tree(attempt, source, commit), FILE_NAME)
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


def _environment(rule: Rule, event: Event, remote: Remote) -> Resolution:
    """Return the environment of a ref. Raises TaskError(env_collision) if another ref has it."""
    found = resolve(rule, event, default_branch=remote.head_branch)
    if found.source not in (EnvironmentSource.BRANCH, EnvironmentSource.TAG):
        return found
    prefix = "refs/heads/" if found.source is EnvironmentSource.BRANCH else "refs/tags/"
    for ref in remote.refs:
        name = ref.removeprefix(prefix)
        if ref in (event.ref, name) or slug(name) != found.environment:
            continue
        if found.source is EnvironmentSource.TAG or _means_branch(rule, name):
            detail = f"{ref} and {event.ref} both map to environment {found.environment!r}"
            raise TaskError("env_collision", detail)
    return found


def _means_branch(rule: Rule, branch: str) -> bool:
    """Return whether a branch of this name gets its environment from its name."""
    if rule.branches and not any(matches(pattern, branch) for pattern in rule.branches):
        return False
    return not mapped_branch(rule.branch_map, branch)


def _target_files(
    rule: Rule, found: Resolution, tree: Mapping[str, TreeEntry]
) -> tuple[TargetFiles, ...]:
    """Return the files of each environment, sorted by environment. Raises TaskError."""
    by_env: dict[str, dict[str, bool]] = {}
    for path, env in _tracked_files(rule, found, tree):
        by_env.setdefault(env, {})[path] = path in tree
    targets = []
    for env, paths in sorted(by_env.items()):
        present = tuple(sorted(path for path, exists in paths.items() if exists))
        missing = frozenset(paths) - set(present)
        targets.append(TargetFiles(env=env, files=present, missing=missing))
        _check(rule, targets[-1])
    return tuple(targets)


def _check(rule: Rule, target: TargetFiles) -> None:
    if len(target.files) > rule.max_changed_files:
        detail = f"{len(target.files)} files, more than max_changed_files {rule.max_changed_files}"
        raise TaskError("too_many_files", detail)
    if target.missing and rule.on_missing_file is OnMissingFile.FAIL:
        name = min(target.missing)
        raise TaskError("file_missing", "the file does not exist in this commit", file=name)


def _tracked_files(
    rule: Rule, found: Resolution, tree: Mapping[str, TreeEntry]
) -> Iterable[tuple[str, str]]:
    """Return path and environment of every file, of literal paths even if the tree lacks them."""
    if rule.file_name:
        return [(rule.file_name, found.environment)]
    if rule.file_path_map:
        return _mapped_files(rule, found, tree)
    return [
        (path, found.environment)
        for path in tree
        if path != FILE_NAME and by_name(path) is not None
    ]


def _mapped_files(
    rule: Rule, found: Resolution, tree: Mapping[str, TreeEntry]
) -> Iterable[tuple[str, str]]:
    """Yield the files of a map: by environment only those of a named environment, by path all."""
    for entry in rule.file_path_map:
        env = found.environment or entry.env
        if entry.by_env and entry.env != env:
            continue
        if is_literal(entry.path):
            yield entry.path, env
        else:
            yield from ((path, env) for path in tree if matches(entry.path, path))
