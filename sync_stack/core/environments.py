"""The environment of a ref and the files of each, from the rule's fields and the event.

(reference: sync-stack 4.3, 4.4)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sync_stack.core.bundle.rules import CleanupAction, OnMissingFile, Rule
from sync_stack.core.events import Event, EventKind
from sync_stack.core.formats import by_name
from sync_stack.core.globs import is_literal, matches
from sync_stack.core.overrides import FILE_NAME
from sync_stack.core.tasks import TaskError

REF_NOT_MAPPED: Final = "ref_not_mapped"
PULL_REQUEST_IGNORED: Final = "pull_request_ignored"
_SLUG_LENGTH: Final = 63
_OUTSIDE: Final = re.compile(r"[^a-z0-9._-]+")
_DOTS: Final = re.compile(r"\.{2,}")


class EnvironmentSource(StrEnum):
    """The field that named the environment; FILES: each file has its own."""

    BRANCH_MAP = "branch_map"
    FILES = "file_path_map"
    BRANCH = "env_as_branch"
    TAG = "env_as_tags"
    PULL_REQUEST = "env_as_pr"
    DEFAULT_ENV = "default_env"
    DEFAULT = "default"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """`environment`, unless each file has its own (FILES); `word` says why there is none."""

    source: EnvironmentSource
    environment: str = ""
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFiles:
    """The files of one environment; `missing` are tracked but absent at the commit."""

    env: str
    files: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()


def slug(text: str) -> str:
    """Return a branch, tag, owner or repository as at most 63 of `a-z 0-9 . _ -`, never `..`."""
    safe = _DOTS.sub(".", _OUTSIDE.sub("-", text.lower()))
    return safe.strip("-.")[:_SLUG_LENGTH].rstrip("-.")


def environment_of_ref(
    rule: Rule, event: Event, *, default_branch: str, refs: Iterable[str]
) -> Resolution:
    """Return the environment; raise TaskError(env_collision) if another of `refs` has it too."""
    found = resolve(rule, event, default_branch=default_branch)
    if found.source not in (EnvironmentSource.BRANCH, EnvironmentSource.TAG):
        return found
    prefix = "refs/heads/" if found.source is EnvironmentSource.BRANCH else "refs/tags/"
    for ref in refs:
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


def resolve(rule: Rule, event: Event, *, default_branch: str) -> Resolution:
    """Return the environment of an event by the first field of the rule that fits it."""
    if event.kind is EventKind.PULL_REQUEST:
        if not rule.env_as_pr or event.pr is None or (event.fork and not rule.pr_from_forks):
            return _none(PULL_REQUEST_IGNORED)
        return _derive(EnvironmentSource.PULL_REQUEST, f"pr-{event.pr}")
    if event.kind is EventKind.TAG:
        return _derive(EnvironmentSource.TAG, slug(event.tag)) if rule.env_as_tags else _none()
    return _of_branch(rule, event.branch, default_branch)


def _of_branch(rule: Rule, branch: str, default_branch: str) -> Resolution:
    matched = any(matches(pattern, branch) for pattern in rule.branches)
    if rule.branches and not matched:
        return _none()
    if mapped := mapped_branch(rule.branch_map, branch):
        return Resolution(source=EnvironmentSource.BRANCH_MAP, environment=mapped)
    listened = matched or branch == default_branch
    if rule.file_path_map and listened:
        return Resolution(source=EnvironmentSource.FILES)
    if rule.env_as_branch:
        return _derive(EnvironmentSource.BRANCH, slug(branch))
    return _of_any_branch(rule) if listened else _none()


def _of_any_branch(rule: Rule) -> Resolution:
    if rule.default_env:
        return Resolution(source=EnvironmentSource.DEFAULT_ENV, environment=rule.default_env)
    derived = rule.env_as_branch or rule.env_as_pr or rule.env_as_tags
    if not (derived or rule.branch_map or rule.file_path_map):
        return Resolution(source=EnvironmentSource.DEFAULT, environment="default")
    return _none()


def mapped_branch(branch_map: Mapping[str, str], branch: str) -> str:
    """Return the environment of that very branch, else of the longest pattern that matches it."""
    if branch in branch_map:
        return branch_map[branch]
    fitting = [p for p in branch_map if not is_literal(p) and matches(p, branch)]
    return branch_map[max(fitting, key=lambda p: (len(p), p))] if fitting else ""


def is_cleaned_up(rule: Rule, found: Resolution) -> bool:
    """Return whether the rule deletes what it wrote to an environment whose ref is gone."""
    cleanup = rule.cleanup
    actions = {
        EnvironmentSource.BRANCH: cleanup.on_branch_delete,
        EnvironmentSource.TAG: cleanup.on_tag_delete,
        EnvironmentSource.PULL_REQUEST: cleanup.on_pr_close,
    }
    return actions.get(found.source) is CleanupAction.PRUNE


def _derive(source: EnvironmentSource, environment: str) -> Resolution:
    return Resolution(source=source, environment=environment) if environment else _none()


def _none(word: str = REF_NOT_MAPPED) -> Resolution:
    return Resolution(source=EnvironmentSource.NONE, word=word)


def target_files(rule: Rule, found: Resolution, tree: Collection[str]) -> tuple[TargetFiles, ...]:
    """Return the files of each environment, sorted by it; `tree`: all paths of the commit.

    Raises TaskError(too_many_files, file_missing).
    """
    by_env: dict[str, dict[str, bool]] = {}
    for path, env in _tracked_files(rule, found, tree):
        by_env.setdefault(env, {})[path] = path in tree
    targets = []
    for env, paths in sorted(by_env.items()):
        present = tuple(sorted(path for path, exists in paths.items() if exists))
        missing = frozenset(paths) - set(present)
        if len(present) > rule.max_changed_files:
            detail = f"{len(present)} files, more than max_changed_files {rule.max_changed_files}"
            raise TaskError("too_many_files", detail)
        if missing and rule.on_missing_file is OnMissingFile.FAIL:
            detail = "the file does not exist in this commit"
            raise TaskError("file_missing", detail, file=min(missing))
        targets.append(TargetFiles(env=env, files=present, missing=missing))
    return tuple(targets)


def _tracked_files(
    rule: Rule, found: Resolution, tree: Collection[str]
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
    rule: Rule, found: Resolution, tree: Collection[str]
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
