"""Run one rule of a task: a sync, a heal or a purge (reference: sync-stack 4.2, 4.8, 6.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import CleanupAction, Rule
from sync_stack.core.environments import Resolution
from sync_stack.core.environments import Source as EnvironmentSource
from sync_stack.core.events import Effect, Event, EventKind
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Sink, TargetPlace
from sync_stack.core.tasks import Kind, TaskError
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.models import LedgerUnit
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import ledger_records
from sync_stack.orchestrator.services.execution import results, targets
from sync_stack.orchestrator.services.execution.apply import RuleSyncFailed, apply_units, clean_up
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.heartbeat import GuardedSink
from sync_stack.orchestrator.services.execution.intents import (
    leftovers,
    recover_targets,
    restore_units,
)
from sync_stack.orchestrator.services.execution.ref_state import (
    RefState,
    git_source,
    later_record,
    mark_read,
    overrides_at,
    read_ref,
    rule_digest,
)
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.targets import (
    Unit,
    UnitFiles,
    environment_of,
    held,
    is_orphan,
    place_unit,
    unit_files,
)
from sync_stack.platforms import git_platform
from sync_stack.repositories import Remote, Source, TreeEntry

_TRIES: Final = 5


def parts_of(bundle: Bundle, request: Mapping[str, Any], segment: str) -> list[RuleSync]:
    """Events in order, and for each the rules of the segment that match its repository."""
    wanted = set(request.get("rules", ()))
    found = []
    for number, stored in enumerate(request.get("events", ())):
        event = Event.from_dict(stored)
        for rule in bundle.rules_of_segment(segment):
            named = not wanted or rule.name in wanted
            if named and rule.platform == event.platform and targets.is_for(rule, event.repo):
                wished = replace(rule, dry_run=rule.dry_run or bool(request.get("dry_run")))
                found.append(RuleSync(rule=wished, event=event, number=number))
    return found


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
        EnvironmentSource.BRANCH: rule.cleanup.on_branch_delete,
        EnvironmentSource.TAG: rule.cleanup.on_tag_delete,
        EnvironmentSource.PULL_REQUEST: rule.cleanup.on_pr_close,
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


def heal_part(attempt: Attempt, part: RuleSync) -> dict[str, Any]:
    """Ends `superseded` when the ledger is no longer the one that the watcher compared with."""
    ledger = _healable_ledger(attempt, part)
    if ledger is None or ledger.applied is None:
        return _superseded(attempt, part)
    reading = _baseline_state(attempt, part, ledger)
    tree = attempt.tree(reading.source, reading.head, ref=part.event.ref)
    files = UnitFiles(env=ledger.env, files=ledger.applied.files)
    unit = place_unit(attempt, part, files, part.event)
    with held(attempt, [unit]):
        current = _healable_ledger(attempt, part)
        if current is None or unit.destination.id != current.destination_id:
            return _superseded(attempt, part)
        unit.ledger = current
        return apply_units(attempt, part, reading, [unit], tree)


def _healable_ledger(attempt: Attempt, part: RuleSync) -> Ledger | None:
    """The unit's ledger, if it is still what the heal is for: generation, ref, commit and rule."""
    asked = attempt.task.request["heal"]
    key = TargetKey(
        rule=part.rule.name,
        repo=part.event.repo,
        env=asked["env"],
        destination_id=asked["destination_id"],
    )
    ledger = ledgers.find(key)
    if ledger is None or ledger.applied is None:
        return None
    applied = ledger.applied
    same = (
        asked["generation"] in (0, applied.generation)
        and asked.get("ref", "") in ("", applied.ref)
        and asked.get("commit", "") in ("", applied.commit)
    )
    digest = rule_digest(attempt.bundle, part.rule)
    return ledger if same and applied.rule_digest == digest else None


def _baseline_state(attempt: Attempt, part: RuleSync, ledger: Ledger) -> RefState:
    assert ledger.applied is not None
    platform = attempt.bundle.platform(part.rule.platform)
    source = git_source(platform, part.rule, part.event.repo, attempt.ports.resolve)
    own = overrides_at(attempt, source, part.rule, ledger.applied.override_commit)
    return RefState(
        source=source,
        remote=Remote(head_branch=""),
        head=ledger.applied.commit,
        event=part.event,
        rule=own.rule,
        rule_digest=ledger.applied.rule_digest,
        override_commit=ledger.applied.override_commit,
    )


def _superseded(attempt: Attempt, part: RuleSync) -> dict[str, Any]:
    outcome = results.outcome("superseded")
    attempt.finish_part(part, outcome)
    return outcome


def part_of_purge(attempt: Attempt) -> RuleSync | None:
    """The unit's rule, or, when that is gone, what stands for it; None without such a unit."""
    row = ledgers.row(attempt.task.request["purge"])
    if row is None:
        return None
    known = next((rule for rule in attempt.bundle.rules if rule.name == row.rule_id), None)
    rule = known or Rule(
        name=row.rule_id,
        platform=row.platform,
        datasource=row.datasource,
        segment=row.datasource,
        repositories=(row.repo,),
    )
    event = Event(
        platform=row.platform, kind=EventKind.PUSH, repo=row.repo, clone_url="", ref=row.ref
    )
    return RuleSync(rule=replace(rule, dry_run=False), event=event)


def purge_part(attempt: Attempt, part: RuleSync) -> dict[str, Any]:
    """Everything the unit owns goes but protected keys and those that bear another's marker.

    Raises TaskError, SinkError, RuleSyncFailed, LostTask.
    """
    row = ledgers.row(attempt.task.request["purge"])
    if row is None or not is_orphan(attempt.bundle, row, attempt.ports.open_sink):
        return _purge_ended(attempt, part, "superseded")
    unit = _purged_target(attempt, row)
    with held(attempt, [unit]):
        unit.ledger = ledgers.get(row.id)
        if unit.ledger is None:
            return _purge_ended(attempt, part, "superseded")
        outcome = clean_up(attempt, part, _purge_state(part, unit.ledger), [unit])
        if not unit.ledger.retained:
            ledger_records.forget(unit.ledger.unit_id, unit.ledger.version)
        return outcome


def _purge_ended(attempt: Attempt, part: RuleSync, word: str) -> dict[str, Any]:
    outcome = results.outcome(word)
    attempt.finish_part(part, outcome)
    return outcome


def _purged_target(attempt: Attempt, row: LedgerUnit) -> Unit:
    known = {each.name: each for each in attempt.bundle.datasources}
    if row.datasource not in known:
        detail = f"datasource {row.datasource!r} is not in the bundle: release the unit instead"
        raise TaskError("destination_invalid", detail)
    sink = attempt.ports.open_sink(known[row.datasource])
    place = TargetPlace(
        rule=row.rule_id,
        tenant=row.tenant,
        datasource=row.datasource,
        env=row.env,
        repo=row.repo,
        rendered=row.destination,
    )
    if not _leads_there(sink, place, row.destination_id):
        detail = f"datasource {row.datasource!r} leads elsewhere now: release the unit instead"
        raise TaskError("destination_invalid", detail)
    return Unit(
        files=UnitFiles(env=row.env),
        place=place,
        destination=ledgers.destination_of(row),
        sink=GuardedSink(sink, attempt.beat),
        ledger=None,
    )


def _leads_there(sink: Sink, place: TargetPlace, destination_id: str) -> bool:
    """Whether it is the same host, database, bucket or folder as it was."""
    places = (place, replace(place, rendered=""))
    return any(sink.destination(each).id == destination_id for each in places)


def _purge_state(part: RuleSync, ledger: Ledger) -> RefState:
    """The rule's own protection holds; nothing is read from Git, and nothing is desired."""
    applied = ledger.applied
    return RefState(
        source=Source(url=""),
        remote=Remote(head_branch=""),
        head=applied.commit if applied else "",
        event=part.event,
        rule=part.rule,
        rule_digest=applied.rule_digest if applied else "",
        closed=True,
    )
