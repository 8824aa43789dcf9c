"""Targets: the files of each, its destination, its lock, and whether a rule still produces it.

(reference: sync-stack 4.3, 4.4, 4.7)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kernel import clock
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import SINK_FLAGS, OnMissingFile, Rule
from sync_stack.core.environments import (
    EnvironmentSource,
    Resolution,
    mapped_branch,
    resolve,
    slug,
)
from sync_stack.core.events import BadPayload, Event
from sync_stack.core.formats import by_name
from sync_stack.core.globs import is_literal, matches
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination, Owner, Sink, SinkError, TargetPlace
from sync_stack.core.tasks import TaskError
from sync_stack.core.templates import render
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import destination_locks, task_transitions
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.claim_heartbeat import GuardedSink
from sync_stack.orchestrator.services.execution.ref_state import (
    RefState,
    event_for,
)
from sync_stack.repositories import TreeEntry

OVERRIDES_FILE: Final = "partita.json"
_OF_PULL_REQUEST: Final = re.compile(r"pr-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFiles:
    """The files of one environment; `missing` are tracked but absent at the commit."""

    env: str
    files: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class Target:
    """A target while an attempt works on it; `ledger` is None until its first write."""

    files: TargetFiles
    place: TargetPlace
    destination: Destination
    sink: GuardedSink
    ledger: Ledger | None
    generation: int = 0
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> Owner:
        former = self.ledger.former_rules if self.ledger else frozenset()
        place = self.place
        return Owner(rule=place.rule, repo=place.repo, env=place.env, former_rules=former)


def environment_of(ref_state: RefState) -> Resolution:
    """Return the environment of a ref. Raises TaskError(env_collision) if another ref has it."""
    default_branch = ref_state.remote.head_branch
    found = resolve(ref_state.rule, ref_state.event, default_branch=default_branch)
    if found.source in (EnvironmentSource.BRANCH, EnvironmentSource.TAG):
        _refuse_collision(ref_state, found)
    return found


def _refuse_collision(ref_state: RefState, found: Resolution) -> None:
    prefix = "refs/heads/" if found.source is EnvironmentSource.BRANCH else "refs/tags/"
    for ref in ref_state.remote.refs:
        name = ref.removeprefix(prefix)
        if ref in (ref_state.event.ref, name) or slug(name) != found.environment:
            continue
        if _means_branch(ref_state.rule, name) or found.source is EnvironmentSource.TAG:
            detail = (
                f"{ref} and {ref_state.event.ref} both map to environment {found.environment!r}"
            )
            raise TaskError("env_collision", detail)


def _means_branch(rule: Rule, branch: str) -> bool:
    """Return whether a branch of this name gets its environment from its name."""
    if rule.branches and not any(matches(pattern, branch) for pattern in rule.branches):
        return False
    return not mapped_branch(rule.branch_map, branch)


def target_files(
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
        if path != OVERRIDES_FILE and by_name(path) is not None
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


def place_target(attempt: Attempt, sync: RuleSync, files: TargetFiles, event: Event) -> Target:
    """Return the target at its destination, with its ledger. Raises SinkError."""
    rule = sync.rule
    sink = attempt.ports.open_sink(attempt.bundle.datasource(rule.datasource))
    place = place_of(rule, event, files.env)
    destination = sink.destination(place)
    key = TargetKey(rule=rule.name, repo=event.repo, env=files.env, destination_id=destination.id)
    bundle = attempt.bundle  # rules that this build cannot serve exist as well
    disabled = {each.name for each in bundle.disabled_rules}
    known_rules = frozenset({each.name for each in bundle.rules} | disabled)
    return Target(
        files=files,
        place=place,
        destination=destination,
        sink=GuardedSink(sink, attempt.heartbeat),
        ledger=ledgers.find(key) or ledgers.adoptable(key, known_rules),
        names=template_names(rule, event, files.env),
    )


def place_of(rule: Rule, event: Event, env: str) -> TargetPlace:
    """Return what the rule's sink needs to name the destination of a target."""
    names = template_names(rule, event, env)
    return TargetPlace(
        rule=rule.name,
        tenant=rule.tenant,
        datasource=rule.datasource,
        env=env,
        repo=event.repo,
        rendered=render(rule.destination_template, names) if rule.destination_template else "",
        overrides={
            name: value for name in SINK_FLAGS if (value := getattr(rule, name)) is not None
        },
    )


def template_names(rule: Rule, event: Event, env: str) -> dict[str, str]:
    owner, _, repo = event.repo.rpartition("/")
    branch = event.branch or event.tag or (f"pr-{event.pr}" if event.pr is not None else "")
    return {
        "env": env,
        "tenant": rule.tenant,
        "owner": slug(owner),
        "repo": slug(repo),
        "branch": slug(branch),
        "platform": rule.platform,
        "datasource": rule.segment,
    }


class DestinationLocked(TaskError):
    """Another task writes at the destination."""

    def __init__(self, destination: str) -> None:
        super().__init__("destination_busy", "another task is writing to the destination")
        self.destination = destination


@contextmanager
def lock_destinations(attempt: Attempt, targets: Sequence[Target]) -> Iterator[None]:
    """Lock the destinations of targets in the order of their ids. Raises DestinationLocked.

    Only an exception releases them early: a process that dies leaves its locks, and a lock whose
    holder no longer runs counts as free.
    """
    locked: list[str] = []
    try:
        for destination in sorted({target.destination.id for target in targets}):
            _lock(attempt, targets, destination)
            locked.append(destination)
        yield
    except Exception:
        _release(attempt, locked)
        raise
    _release(attempt, locked)


def _lock(attempt: Attempt, targets: Sequence[Target], destination: str) -> None:
    generation = destination_locks.acquire(destination, attempt.claim).generation
    if not generation:
        raise DestinationLocked(destination)
    for target in targets:
        if target.destination.id == destination:
            target.generation = generation


def _release(attempt: Attempt, destinations: Sequence[str]) -> None:
    for destination in destinations:
        destination_locks.release(destination, attempt.claim)
    if due := task_transitions.make_due(destinations, clock.now()):
        attempt.ports.publish(due)


def is_for(rule: Rule, repo: str) -> bool:
    """Return whether a rule takes a repository; patterns ignore case, and exclusion wins."""

    def among(patterns: Sequence[str]) -> bool:
        return any(matches(pattern, repo, ignore_case=True) for pattern in patterns)

    return among(rule.repositories) and not among(rule.exclude_repositories)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLocation:
    """The source of a target, and its destination."""

    repo: str
    env: str
    ref: str
    destination_id: str


def is_orphan(
    bundle: Bundle, target: LedgerTarget, open_sink: Callable[[Datasource], Sink] | None
) -> bool:
    """Return whether no rule takes its repository, names its environment and writes where it is.

    Without sinks only the repository is checked. A rule that this build cannot serve keeps its
    targets.
    """
    if any(rule.name == target.rule_id for rule in bundle.disabled_rules):
        return False
    rule = bundle.find_rule(target.rule_id)
    if rule is None or not is_for(rule, target.repo):
        return True
    if open_sink is None or not target.ref:
        return False
    sink = open_sink(bundle.datasource(rule.datasource))
    found = TargetLocation(
        repo=target.repo, env=target.env, ref=target.ref, destination_id=target.destination_id
    )
    return not is_produced(bundle, rule, found, sink)


def is_produced(bundle: Bundle, rule: Rule, target: TargetLocation, sink: Sink) -> bool:
    """Return whether the rule still writes this environment to this destination."""
    try:
        event = event_for(bundle, rule, target.repo, target.ref)
        place = place_of(rule, event, target.env)
        same_place = sink.destination(place).id == target.destination_id
    except (BadPayload, SinkError):
        return False
    return same_place and _names(rule, event, target.env)


def _names(rule: Rule, event: Event, env: str) -> bool:
    """Return whether the rule names an environment; overrides may name any.

    The ref of a pull request may be a branch (Bitbucket), so its environment identifies it. Any
    branch may be the default branch.
    """
    if rule.allow_overrides or (rule.env_as_pr and _OF_PULL_REQUEST.fullmatch(env)):
        return True
    found = resolve(rule, event, default_branch=event.branch)
    if found.source is EnvironmentSource.FILES:
        return any(entry.env == env for entry in rule.file_path_map)
    return found.environment == env
