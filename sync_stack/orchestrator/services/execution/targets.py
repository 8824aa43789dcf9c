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
from sync_stack.core.bundle.rules import OnMissingFile, Rule
from sync_stack.core.environments import (
    EnvironmentRules,
    Resolution,
    Source,
    mapped_branch,
    resolve,
    slug,
)
from sync_stack.core.events import BadPayload, Event
from sync_stack.core.globs import is_literal, matches
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination, Owner, Sink, SinkError, TargetPlace
from sync_stack.core.tasks import TaskError
from sync_stack.core.templates import render
from sync_stack.formats import by_name
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.models import LedgerUnit
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import destination_locks, task_transitions
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.heartbeat import GuardedSink
from sync_stack.orchestrator.services.execution.ref_state import (
    RefState,
    event_for,
)
from sync_stack.repositories import TreeEntry

OVERRIDES_FILE: Final = "partita.json"
_SINK_OVERRIDES: Final = (
    "env_as_collection",
    "env_as_namespace",
    "env_as_name_suffix",
    "env_as_key_prefix",
    "env_as_prefix",
    "env_as_dir",
    "env_as_filename",
)
_OF_PULL_REQUEST: Final = re.compile(r"pr-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFiles:
    """The files of one environment; `missing` are tracked but absent at the commit."""

    env: str
    files: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class Unit:
    """One unit of a part while it is worked on; `ledger` is None until its first write."""

    files: UnitFiles
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


def environment_of(reading: RefState) -> Resolution:
    """Raises TaskError(env_collision) when another live ref means the same unit."""
    rules = EnvironmentRules.of(reading.rule)
    found = resolve(rules, reading.event, default_branch=reading.remote.head_branch)
    if found.source in (Source.BRANCH, Source.TAG):
        _refuse_collision(reading, found)
    return found


def _refuse_collision(reading: RefState, found: Resolution) -> None:
    prefix = "refs/heads/" if found.source is Source.BRANCH else "refs/tags/"
    for ref in reading.remote.refs:
        name = ref.removeprefix(prefix)
        if ref in (reading.event.ref, name) or slug(name) != found.environment:
            continue
        if _means_branch(reading.rule, name) or found.source is Source.TAG:
            detail = f"{ref} and {reading.event.ref} are both environment {found.environment!r}"
            raise TaskError("env_collision", detail)


def _means_branch(rule: Rule, branch: str) -> bool:
    """Whether a branch of this name would get its environment from its name."""
    if rule.branches and not any(matches(pattern, branch) for pattern in rule.branches):
        return False
    return not mapped_branch(rule.branch_map, branch)


def unit_files(
    rule: Rule, found: Resolution, tree: Mapping[str, TreeEntry]
) -> tuple[UnitFiles, ...]:
    """Files by environment, in the order of their environments. Raises TaskError."""
    by_env: dict[str, dict[str, bool]] = {}
    for path, env in _tracked(rule, found, tree):
        by_env.setdefault(env, {})[path] = path in tree
    units = [_unit(env, files) for env, files in sorted(by_env.items())]
    for unit in units:
        _check(rule, unit)
    return tuple(units)


def _unit(env: str, files: Mapping[str, bool]) -> UnitFiles:
    present = tuple(sorted(path for path, there in files.items() if there))
    return UnitFiles(env=env, files=present, missing=frozenset(files) - set(present))


def _check(rule: Rule, unit: UnitFiles) -> None:
    if len(unit.files) > rule.max_changed_files:
        detail = f"{len(unit.files)} files, more than max_changed_files {rule.max_changed_files}"
        raise TaskError("too_many_files", detail)
    if unit.missing and rule.on_missing_file is OnMissingFile.FAIL:
        name = min(unit.missing)
        raise TaskError("file_missing", "the commit does not have this file", file=name)


def _tracked(
    rule: Rule, found: Resolution, tree: Mapping[str, TreeEntry]
) -> Iterable[tuple[str, str]]:
    """(path, environment) of every file; literal paths also when the tree lacks them."""
    if rule.file_name:
        return [(rule.file_name, found.environment)]
    if rule.file_path_map:
        return _mapped(rule, found, tree)
    return [(path, found.environment) for path in tree if _is_readable(path)]


def _mapped(
    rule: Rule, found: Resolution, tree: Mapping[str, TreeEntry]
) -> Iterable[tuple[str, str]]:
    """A named environment takes its own files of a map by environment, all of one by path."""
    for entry in rule.file_path_map:
        env = found.environment or entry.env
        if entry.by_env and entry.env != env:
            continue
        if is_literal(entry.path):
            yield entry.path, env
        else:
            yield from ((path, env) for path in tree if matches(entry.path, path))


def _is_readable(path: str) -> bool:
    return path != OVERRIDES_FILE and by_name(path) is not None


def place_unit(attempt: Attempt, part: RuleSync, files: UnitFiles, event: Event) -> Unit:
    """Where it lives, and its ledger if it has one. Raises SinkError(destination_invalid)."""
    rule = part.rule
    sink = attempt.ports.open_sink(attempt.bundle.datasource(rule.datasource))
    place = place_of(rule, event, files.env)
    destination = sink.destination(place)
    key = TargetKey(rule=rule.name, repo=event.repo, env=files.env, destination_id=destination.id)
    return Unit(
        files=files,
        place=place,
        destination=destination,
        sink=GuardedSink(sink, attempt.beat),
        ledger=ledgers.find(key) or ledgers.abandoned(key, known_rules(attempt)),
        names=template_names(rule, event, files.env),
    )


def place_of(rule: Rule, event: Event, env: str) -> TargetPlace:
    """What the rule's sink needs to name the unit's destination."""
    names = template_names(rule, event, env)
    return TargetPlace(
        rule=rule.name,
        tenant=rule.tenant,
        datasource=rule.datasource,
        env=env,
        repo=event.repo,
        rendered=render(rule.destination_template, names) if rule.destination_template else "",
        overrides=_sink_overrides(rule),
    )


def known_rules(attempt: Attempt) -> frozenset[str]:
    """Rules that exist, also those that this build cannot serve."""
    bundle = attempt.bundle
    disabled = {rule.name for rule in bundle.disabled_rules}
    return frozenset({rule.name for rule in bundle.rules} | disabled)


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


def _sink_overrides(rule: Rule) -> dict[str, bool]:
    given = {name: getattr(rule, name) for name in _SINK_OVERRIDES}
    return {name: value for name, value in given.items() if value is not None}


class DestinationLocked(TaskError):
    """Another task is at work at the destination."""

    def __init__(self, destination: str) -> None:
        super().__init__("destination_busy", "another task is at work at the destination")
        self.destination = destination


@contextmanager
def held(attempt: Attempt, units: Sequence[Unit]) -> Iterator[None]:
    """Hold the units' destinations, taken in order of their ids. Raises DestinationLocked.

    A process that dies gives nothing back: a holder that no longer runs is none.
    """
    taken: list[str] = []
    try:
        for destination in sorted({unit.destination.id for unit in units}):
            _take(attempt, units, destination)
            taken.append(destination)
        yield
    except Exception:
        _give_back(attempt, taken)
        raise
    _give_back(attempt, taken)


def _take(attempt: Attempt, units: Sequence[Unit], destination: str) -> None:
    found = destination_locks.take(destination, attempt.mine)
    if not found.generation:
        raise DestinationLocked(destination)
    for unit in units:
        if unit.destination.id == destination:
            unit.generation = found.generation


def _give_back(attempt: Attempt, taken: Sequence[str]) -> None:
    for destination in taken:
        destination_locks.release(destination, attempt.mine)
    if due := task_transitions.make_due(taken, clock.now()):
        attempt.ports.publish(due)


def is_for(rule: Rule, repo: str) -> bool:
    """Patterns ignore case; exclusion wins."""

    def among(patterns: Sequence[str]) -> bool:
        return any(matches(pattern, repo, ignore_case=True) for pattern in patterns)

    return among(rule.repositories) and not among(rule.exclude_repositories)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLocation:
    """What a unit was made from, and where it is."""

    repo: str
    env: str
    ref: str
    destination_id: str


def is_orphan(
    bundle: Bundle, unit: LedgerUnit, open_sink: Callable[[Datasource], Sink] | None
) -> bool:
    """No rule takes its repository, names its environment or writes where it is.

    Without sinks only the first is looked at. A rule that this build cannot serve keeps its units.
    """
    if any(rule.name == unit.rule_id for rule in bundle.disabled_rules):
        return False
    rule = next((rule for rule in bundle.rules if rule.name == unit.rule_id), None)
    if rule is None or not is_for(rule, unit.repo):
        return True
    if open_sink is None or not unit.ref:
        return False
    sink = open_sink(bundle.datasource(rule.datasource))
    found = TargetLocation(
        repo=unit.repo, env=unit.env, ref=unit.ref, destination_id=unit.destination_id
    )
    return not is_yielded(bundle, rule, found, sink)


def is_yielded(bundle: Bundle, rule: Rule, unit: TargetLocation, sink: Sink) -> bool:
    """Whether the rule writes the unit's environment to the unit's destination."""
    try:
        event = event_for(bundle, rule, unit.repo, unit.ref)
        place = place_of(rule, event, unit.env)
        same_place = sink.destination(place).id == unit.destination_id
    except (BadPayload, SinkError):
        return False
    return same_place and _names(rule, event, unit.env)


def _names(rule: Rule, event: Event, env: str) -> bool:
    """Any branch may be the default one here, and `partita.json` may say what it likes.

    The ref of a pull request may be a branch (Bitbucket): its environment tells it.
    """
    if rule.allow_overrides or (rule.env_as_pr and _OF_PULL_REQUEST.fullmatch(env)):
        return True
    found = resolve(EnvironmentRules.of(rule), event, default_branch=event.branch)
    if found.source is Source.FILES:
        return any(entry.env == env for entry in rule.file_path_map)
    return found.environment == env
