"""Run one rule of a task: a sync, a heal or the purge of an orphan.

Each loads its targets, locks their destinations, decides on all changes, writes them and commits.
(reference: sync-stack 4.2, 4.7, 4.8, 6.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import CleanupAction, Rule
from sync_stack.core.environments import EnvironmentSource, Resolution
from sync_stack.core.events import Effect, Event, EventKind
from sync_stack.core.git_platform import git_platform
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import TargetPlace
from sync_stack.core.tasks import TaskError, TaskKind
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.domain.task_documents import (
    RuleSyncOutcome,
    TargetOutcome,
    TaskRequest,
)
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import ledger_records
from sync_stack.orchestrator.services.execution import results
from sync_stack.orchestrator.services.execution.apply import commit_targets, write_targets
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.intents import recover_targets, restore_targets
from sync_stack.orchestrator.services.execution.ref_state import (
    RefState,
    TargetFiles,
    environment_of,
    overrides_at,
    read_ref,
    target_files,
)
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.rule_scope import (
    git_source,
    is_for,
    is_orphan,
    rule_digest,
)
from sync_stack.orchestrator.services.execution.target_content import load_targets
from sync_stack.orchestrator.services.execution.target_plan import plan_targets
from sync_stack.orchestrator.services.execution.targets import (
    RuleWork,
    Target,
    TargetFailed,
    lock_destinations,
    place_target,
    unfinished_targets,
)
from sync_stack.orchestrator.services.ref_records import later_record, mark_read
from sync_stack.repositories import Remote, RepositorySource

_TRIES: Final = 5
Work = RuleWork | RuleSyncOutcome  # an outcome where there is nothing to do


class RuleSyncFailed(Exception):
    """A rule sync failed; `targets` are those of its outcome."""

    def __init__(self, error: TaskError, targets: Sequence[TargetOutcome]) -> None:
        super().__init__(str(error))
        self.error = error
        self.targets = targets


def rule_syncs_of(bundle: Bundle, request: TaskRequest, segment: str) -> list[RuleSync]:
    """Return a rule sync for each event, in order, and each rule of the segment that matches it."""
    found = []
    for number, event in enumerate(request.events):
        for rule in bundle.rules_of_segment(segment):
            named = not request.rules or rule.name in request.rules
            if named and rule.platform == event.platform and is_for(rule, event.repo):
                rule_of_request = replace(rule, dry_run=rule.dry_run or request.dry_run)
                found.append(RuleSync(rule=rule_of_request, event=event, number=number))
    return found


def run_rule_sync(attempt: Attempt, sync: RuleSync) -> RuleSyncOutcome:
    """Sync, heal or purge; return the stored outcome.

    A permanent failure restores what an earlier attempt left half written.
    Raises RuleSyncFailed, LostTask, KNOWN_ERRORS.
    """
    if attempt.follows_ref and _is_ignored(attempt, sync):
        outcome = results.outcome("pull_request_action_ignored")
        return attempt.finish_rule_sync(sync, outcome)
    try:
        for _ in range(_TRIES):
            if ended := _run_once(attempt, sync):
                return ended
        raise TaskError("destination_busy", "other syncs keep changing the targets")
    except (RuleSyncFailed, *KNOWN_ERRORS) as error:
        known = error.error if isinstance(error, RuleSyncFailed) else task_error(error)
        if not known.retryable:
            recover_targets(attempt, sync)
        raise


def _run_once(attempt: Attempt, sync: RuleSync) -> RuleSyncOutcome | None:
    """Carry out the work under its locks; return None if it is about other targets by then."""
    versions = ledgers.versions(sync.rule.name, sync.event.repo)
    work = _load(attempt, sync)
    targets = work.targets if isinstance(work, RuleWork) else ()
    unfinished = unfinished_targets(attempt, sync, targets)
    with lock_destinations(attempt, [*targets, *unfinished]) as generations:
        if ledgers.versions(sync.rule.name, sync.event.repo) != versions:
            again = _load(attempt, sync)
            if _identity_of(again) != _identity_of(work):
                return None
            work = again
        restore_targets(attempt, unfinished, generations)
        if isinstance(work, RuleSyncOutcome):
            return attempt.finish_rule_sync(sync, work)
        for target in work.targets:
            target.generation = generations[target.destination.id]
        return _carry_out(attempt, sync, work)


def _identity_of(work: Work) -> tuple[str, bool, set[tuple[str, str]]]:
    """Return the message of an outcome, whether it is a clean-up, and the places of targets."""
    if isinstance(work, RuleSyncOutcome):
        return work.message, False, set()
    places = {(target.place.env, target.destination.id) for target in work.targets}
    return "", work.tree is None, places


def _carry_out(attempt: Attempt, sync: RuleSync, work: RuleWork) -> RuleSyncOutcome:
    """Load, plan and write all targets; commit. Raises RuleSyncFailed, LostTask."""
    ref_state, targets, dry_run = work.ref_state, work.targets, work.ref_state.rule.dry_run
    if work.tree is not None:
        attempt.stage("plan", 0.25)
    found = load_targets(attempt, work)
    try:
        planned = plan_targets(found, dry_run=dry_run)
        if planned and not dry_run:
            targets = tuple(each.target for each in planned)
            write_targets(attempt, ref_state, planned)
    except TargetFailed as failure:
        outcomes = results.failed_targets(ref_state, targets, failure)
        raise RuleSyncFailed(task_error(failure.cause), outcomes) from failure
    outcome = attempt.finish_rule_sync(sync, results.outcome_of(work, planned, found.idle))
    if not dry_run:
        commit_targets(attempt, ref_state, planned)
    for target in work.targets if attempt.request.purge else ():
        if target.ledger and not target.ledger.retained:
            ledger_records.delete(target.ledger.unit_id, target.ledger.version)
    return outcome


def _load(attempt: Attempt, sync: RuleSync) -> Work:
    """Return the targets of the ref, of the heal or of the purge. Raises KNOWN_ERRORS."""
    if attempt.request.purge:
        return _load_orphan(attempt, sync)
    if attempt.task.kind == TaskKind.HEAL:
        return _load_baseline(attempt, sync)
    return _load_ref(attempt, sync)


def _is_ignored(attempt: Attempt, sync: RuleSync) -> bool:
    event = sync.event
    if event.kind is not EventKind.PULL_REQUEST or not event.action:
        return False
    platform = git_platform(attempt.bundle.platform(sync.rule.platform))
    return platform.effect(event.action) is Effect.NONE


def _load_ref(attempt: Attempt, sync: RuleSync) -> Work:
    attempt.stage("git", 0.0)
    ref_state = read_ref(attempt, sync)
    found = environment_of(ref_state)
    if found.word:
        return results.outcome(found.word, ref_state)
    if ref_state.gone or ref_state.closed:
        return _load_gone(attempt, sync, ref_state, found)
    tree = attempt.tree(ref_state.source, ref_state.head, ref=sync.event.ref)
    mark_read(sync)
    files = target_files(ref_state.rule, found, tree)
    targets = tuple(place_target(attempt, sync, entry, ref_state.event) for entry in files)
    if not targets:
        return results.outcome("no_files", ref_state)
    return RuleWork(ref_state=ref_state, targets=targets, tree=tree)


def _load_gone(attempt: Attempt, sync: RuleSync, ref_state: RefState, found: Resolution) -> Work:
    """Return the clean-up for a ref that is gone or a pull request that is closed.

    A closed pull request whose branch still exists is ignored, because nothing was deleted.
    """
    if _cleans(ref_state.rule, found) and not later_record(sync):
        target = place_target(attempt, sync, TargetFiles(env=found.environment), ref_state.event)
        if target.ledger is not None and target.ledger.applied is not None:
            return RuleWork(ref_state=ref_state, targets=(target,))
    message = "ref_deleted" if ref_state.gone else "pull_request_ignored"
    return results.outcome(message, ref_state)


def _cleans(rule: Rule, found: Resolution) -> bool:
    actions = {
        EnvironmentSource.BRANCH: rule.cleanup.on_branch_delete,
        EnvironmentSource.TAG: rule.cleanup.on_tag_delete,
        EnvironmentSource.PULL_REQUEST: rule.cleanup.on_pr_close,
    }
    return actions.get(found.source) is CleanupAction.PRUNE


def _load_baseline(attempt: Attempt, sync: RuleSync) -> Work:
    """Return the target of a heal with the ledger's commit, whatever the ref is now.

    The outcome is `superseded` if the ledger is no longer the one that the watcher compared with.
    """
    ledger = _healable_ledger(attempt, sync)
    if ledger is None or ledger.applied is None:
        return results.outcome("superseded")
    ref_state = _baseline_state(attempt, sync, ledger)
    tree = attempt.tree(ref_state.source, ref_state.head, ref=sync.event.ref)
    applied = ledger.applied
    files = TargetFiles(env=ledger.env, files=applied.files, missing=applied.missing_files())
    target = place_target(attempt, sync, files, sync.event)
    if target.destination.id != ledger.destination_id:
        return results.outcome("superseded")
    target.ledger = ledger
    return RuleWork(ref_state=ref_state, targets=(target,), tree=tree)


def _healable_ledger(attempt: Attempt, sync: RuleSync) -> Ledger | None:
    """Return the ledger if generation, ref, commit and rule are still what the heal asks for."""
    heal = attempt.request.heal
    if heal is None:
        raise TaskError("internal_error", "the task names no target to heal")
    key = TargetKey(
        rule=sync.rule.name,
        repo=sync.event.repo,
        env=heal.env,
        destination_id=heal.destination_id,
    )
    ledger = ledgers.find(key)
    if ledger is None or ledger.applied is None:
        return None
    applied = ledger.applied
    same = (
        heal.generation in (0, applied.generation)
        and heal.ref in ("", applied.ref)
        and heal.commit in ("", applied.commit)
    )
    digest = rule_digest(attempt.bundle, sync.rule)
    return ledger if same and applied.rule_digest == digest else None


def _baseline_state(attempt: Attempt, sync: RuleSync, ledger: Ledger) -> RefState:
    assert ledger.applied is not None
    platform = attempt.bundle.platform(sync.rule.platform)
    source = git_source(platform, sync.rule, sync.event.repo, attempt.ports.resolve)
    own = overrides_at(attempt, source, sync.rule, ledger.applied.override_commit)
    return RefState(
        source=source,
        remote=Remote(head_branch=""),
        head=ledger.applied.commit,
        sync=sync,
        event=sync.event,
        rule=own.rule,
        rule_digest=ledger.applied.rule_digest,
        override_commit=ledger.applied.override_commit,
    )


def purge_sync_of(attempt: Attempt) -> RuleSync | None:
    """Return a sync of the target's rule, or of a substitute; None without a target."""
    row = ledgers.get_row(attempt.request.purge)
    if row is None:
        return None
    rule = attempt.bundle.find_rule(row.rule_id) or Rule(
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


def _load_orphan(attempt: Attempt, sync: RuleSync) -> Work:
    """Return an orphan, of which all goes but protected keys and those with another's marker."""
    row = ledgers.get_row(attempt.request.purge)
    if row is None or not is_orphan(attempt.bundle, row, attempt.ports.open_sink):
        return results.outcome("superseded")
    if row.datasource not in {each.name for each in attempt.bundle.datasources}:
        detail = f"datasource {row.datasource!r} is not in the bundle: release the target instead"
        raise TaskError("destination_invalid", detail)
    sink = attempt.open_sink(row.datasource)
    place = TargetPlace(
        rule=row.rule_id,
        tenant=row.tenant,
        datasource=row.datasource,
        env=row.env,
        repo=row.repo,
        rendered=row.destination,
    )
    places = (place, replace(place, rendered=""))  # the same host, database, bucket or folder?
    if all(sink.destination(each).id != row.destination_id for each in places):
        detail = (
            f"datasource {row.datasource!r} now points to another place: release the target instead"
        )
        raise TaskError("destination_invalid", detail)
    ledger = ledgers.ledger_of(row)
    target = Target(
        files=TargetFiles(env=row.env),
        place=place,
        destination=ledgers.destination_of(row),
        sink=sink,
        ledger=ledger,
    )
    return RuleWork(ref_state=_purge_state(sync, ledger), targets=(target,))


def _purge_state(sync: RuleSync, ledger: Ledger) -> RefState:
    """Return a closed ref: nothing is read from Git, and the rule's own protection applies."""
    applied = ledger.applied
    return RefState(
        source=RepositorySource(url=""),
        remote=Remote(head_branch=""),
        head=applied.commit if applied else "",
        sync=sync,
        event=sync.event,
        rule=sync.rule,
        rule_digest=applied.rule_digest if applied else "",
        closed=True,
    )
