"""The parts of a task: its rules, one after another, each for its event.

(reference: sync-stack 4.2, 4.8)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import CleanupAction, Rule
from sync_stack.core.environments import Resolution, Source
from sync_stack.core.events import Effect, Event, EventKind
from sync_stack.core.globs import matches
from sync_stack.core.tasks import Kind, TaskError
from sync_stack.orchestrator.execution import results
from sync_stack.orchestrator.execution.applying import RuleSyncFailed, apply_units, clean_up
from sync_stack.orchestrator.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.execution.destination_lock import held
from sync_stack.orchestrator.execution.failures import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.execution.heals import heal_part
from sync_stack.orchestrator.execution.recovery import (
    leftovers,
    recover_targets,
    restore_units,
)
from sync_stack.orchestrator.execution.ref_records import mark_read
from sync_stack.orchestrator.execution.ref_state import RefState, later_record, read_ref
from sync_stack.orchestrator.execution.units import (
    Unit,
    UnitFiles,
    environment_of,
    place_unit,
    unit_files,
)
from sync_stack.orchestrator.rows import ledgers
from sync_stack.platforms import git_platform
from sync_stack.repositories import TreeEntry

_TRIES: Final = 5


def parts_of(bundle: Bundle, request: Mapping[str, Any], segment: str) -> list[RuleSync]:
    """Events in order, and for each the rules of the segment that match its repository."""
    wanted = set(request.get("rules", ()))
    found = []
    for number, stored in enumerate(request.get("events", ())):
        event = Event.from_dict(stored)
        for rule in bundle.rules_of_segment(segment):
            named = not wanted or rule.name in wanted
            if named and rule.platform == event.platform and is_for(rule, event.repo):
                wished = replace(rule, dry_run=rule.dry_run or bool(request.get("dry_run")))
                found.append(RuleSync(rule=wished, event=event, number=number))
    return found


def is_for(rule: Rule, repo: str) -> bool:
    """Patterns ignore case; exclusion wins."""

    def among(patterns: Sequence[str]) -> bool:
        return any(matches(pattern, repo, ignore_case=True) for pattern in patterns)

    return among(rule.repositories) and not among(rule.exclude_repositories)


def run_rule_sync(attempt: Attempt, part: RuleSync) -> dict[str, Any]:
    """The outcome, stored. Raises RuleSyncFailed, TaskError, GitError, SinkError, LostTask."""
    if attempt.task.kind == Kind.HEAL:
        return heal_part(attempt, part)
    word = _ignored(attempt, part)
    if word:
        return _finished(attempt, part, results.outcome(word))
    try:
        return _bring(attempt, part)
    except (RuleSyncFailed, *KNOWN_ERRORS) as error:
        known = error.error if isinstance(error, RuleSyncFailed) else task_error(error)
        if not known.retryable:
            recover_targets(attempt, part)
        raise


def _bring(attempt: Attempt, part: RuleSync) -> dict[str, Any]:
    for _ in range(_TRIES):
        noted = ledgers.versions(part.rule.name, part.event.repo)
        work = _prepare(attempt, part)
        left = leftovers(attempt, part, work.units)
        with held(attempt, [*work.units, *left]):
            current = _still(attempt, part, noted, work)
            if current is not None:
                restore_units(attempt, left)
                return _carry_out(attempt, part, current)
    raise TaskError("destination_busy", "other syncs keep changing the units")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a reading asks for: units to bring up to date, or, without `tree`, to clean up."""

    reading: RefState
    units: tuple[Unit, ...] = ()
    tree: Mapping[str, TreeEntry] | None = None
    word: str = ""

    @property
    def aim(self) -> tuple[str, bool, set[tuple[str, str]]]:
        """What is to be done, and where."""
        places = {(unit.place.env, unit.destination.id) for unit in self.units}
        return self.word, self.tree is None, places


def _ignored(attempt: Attempt, part: RuleSync) -> str:
    event = part.event
    if event.kind is not EventKind.PULL_REQUEST or not event.action:
        return ""
    platform = git_platform(attempt.bundle.platform(part.rule.platform))
    none = platform.effect(event.action) is Effect.NONE
    return "pull_request_action_ignored" if none else ""


def _prepare(attempt: Attempt, part: RuleSync) -> Work:
    attempt.stage("git", 0.0)
    reading = read_ref(attempt, part)
    found = environment_of(reading)
    if found.word:
        return Work(reading=reading, word=found.word)
    if reading.gone or reading.closed:
        return _gone(attempt, part, reading, found)
    tree = attempt.tree(reading.source, reading.head, ref=part.event.ref)
    mark_read(part)
    files = unit_files(reading.rule, found, tree)
    units = tuple(place_unit(attempt, part, entry, reading.event) for entry in files)
    return Work(reading=reading, units=units, tree=tree, word="" if units else "no_files")


def _gone(attempt: Attempt, part: RuleSync, reading: RefState, found: Resolution) -> Work:
    """The ref is gone or its pull request closed: derived environments may be cleaned up.

    A closed pull request whose branch lives is ignored: nothing was deleted.
    """
    word = "ref_deleted" if reading.gone else "pull_request_ignored"
    if not _cleans(reading.rule, found) or later_record(part):
        return Work(reading=reading, word=word)
    unit = place_unit(attempt, part, UnitFiles(env=found.environment), reading.event)
    known = unit.ledger is not None and unit.ledger.applied is not None
    return Work(reading=reading, units=(unit,) if known else (), word="" if known else word)


def _cleans(rule: Rule, found: Resolution) -> bool:
    actions = {
        Source.BRANCH: rule.cleanup.on_branch_delete,
        Source.TAG: rule.cleanup.on_tag_delete,
        Source.PULL_REQUEST: rule.cleanup.on_pr_close,
    }
    return actions.get(found.source) is CleanupAction.PRUNE


def _still(attempt: Attempt, part: RuleSync, noted: Mapping[str, int], work: Work) -> Work | None:
    """The work as it is now that nobody else can change it; None when it is about other units."""
    if ledgers.versions(part.rule.name, part.event.repo) == noted:
        return work
    again = _prepare(attempt, part)
    if again.aim != work.aim:
        return None
    generations = {unit.destination.id: unit.generation for unit in work.units}
    for unit in again.units:
        unit.generation = generations[unit.destination.id]
    return again


def _carry_out(attempt: Attempt, part: RuleSync, work: Work) -> dict[str, Any]:
    if work.word:
        return _finished(attempt, part, results.outcome(work.word, work.reading))
    if work.tree is None:
        return clean_up(attempt, part, work.reading, work.units)
    return apply_units(attempt, part, work.reading, work.units, work.tree)


def _finished(attempt: Attempt, part: RuleSync, outcome: dict[str, Any]) -> dict[str, Any]:
    attempt.finish_part(part, outcome)
    return outcome
