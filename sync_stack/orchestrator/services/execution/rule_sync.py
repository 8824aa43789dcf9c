"""Run one rule of a task: a sync, a heal or the purge of an orphan.

(reference: sync-stack 4.2, 4.7, 4.8, 6.5)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome, TaskRequest
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import ledger_records
from sync_stack.orchestrator.services.execution import results
from sync_stack.orchestrator.services.execution.apply import RuleSyncFailed, apply_targets, clean_up
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.claim_heartbeat import GuardedSink
from sync_stack.orchestrator.services.execution.intents import (
    recover_targets,
    restore_targets,
    unfinished_targets,
)
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
from sync_stack.orchestrator.services.execution.targets import (
    Target,
    lock_destinations,
    place_target,
)
from sync_stack.orchestrator.services.ref_records import later_record, mark_read
from sync_stack.repositories import Remote, RepositorySource, TreeEntry

_TRIES: Final = 5


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
    """Sync or heal; return the stored outcome. Raises RuleSyncFailed, LostTask, KNOWN_ERRORS."""
    if attempt.task.kind == TaskKind.HEAL:
        return run_heal(attempt, sync)
    if _is_ignored(attempt, sync):
        outcome = results.outcome("pull_request_action_ignored")
        return attempt.finish_rule_sync(sync, outcome)
    try:
        return _sync(attempt, sync)
    except (RuleSyncFailed, *KNOWN_ERRORS) as error:
        known = error.error if isinstance(error, RuleSyncFailed) else task_error(error)
        if not known.retryable:
            recover_targets(attempt, sync)
        raise


def _sync(attempt: Attempt, sync: RuleSync) -> RuleSyncOutcome:
    for _ in range(_TRIES):
        versions = ledgers.versions(sync.rule.name, sync.event.repo)
        work = _prepare(attempt, sync)
        unfinished = unfinished_targets(attempt, sync, work.targets)
        with lock_destinations(attempt, [*work.targets, *unfinished]):
            current = _revalidate(attempt, sync, versions, work)
            if current is not None:
                restore_targets(attempt, unfinished)
                return _carry_out(attempt, sync, current)
    raise TaskError("destination_busy", "other syncs keep changing the targets")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWork:
    """The targets to sync, or, without `tree`, to clean up; `status` if there is none."""

    ref_state: RefState
    targets: tuple[Target, ...] = ()
    tree: Mapping[str, TreeEntry] | None = None
    status: str = ""

    @property
    def target_ids(self) -> tuple[str, bool, set[tuple[str, str]]]:
        """Return what identifies the work: its status, its kind and its targets."""
        places = {(target.place.env, target.destination.id) for target in self.targets}
        return self.status, self.tree is None, places


def _is_ignored(attempt: Attempt, sync: RuleSync) -> bool:
    event = sync.event
    if event.kind is not EventKind.PULL_REQUEST or not event.action:
        return False
    platform = git_platform(attempt.bundle.platform(sync.rule.platform))
    return platform.effect(event.action) is Effect.NONE


def _prepare(attempt: Attempt, sync: RuleSync) -> RuleWork:
    attempt.stage("git", 0.0)
    ref_state = read_ref(attempt, sync)
    found = environment_of(ref_state)
    if found.word:
        return RuleWork(ref_state=ref_state, status=found.word)
    if ref_state.gone or ref_state.closed:
        return _clean_up_gone(attempt, sync, ref_state, found)
    tree = attempt.tree(ref_state.source, ref_state.head, ref=sync.event.ref)
    mark_read(sync)
    files = target_files(ref_state.rule, found, tree)
    targets = tuple(place_target(attempt, sync, entry, ref_state.event) for entry in files)
    return RuleWork(
        ref_state=ref_state, targets=targets, tree=tree, status="" if targets else "no_files"
    )


def _clean_up_gone(
    attempt: Attempt, sync: RuleSync, ref_state: RefState, found: Resolution
) -> RuleWork:
    """Return the clean-up for a ref that is gone or a pull request that is closed.

    A closed pull request whose branch still exists is ignored, because nothing was deleted.
    """
    status = "ref_deleted" if ref_state.gone else "pull_request_ignored"
    if not _cleans(ref_state.rule, found) or later_record(sync):
        return RuleWork(ref_state=ref_state, status=status)
    target = place_target(attempt, sync, TargetFiles(env=found.environment), ref_state.event)
    known = target.ledger is not None and target.ledger.applied is not None
    return RuleWork(
        ref_state=ref_state, targets=(target,) if known else (), status="" if known else status
    )


def _cleans(rule: Rule, found: Resolution) -> bool:
    actions = {
        EnvironmentSource.BRANCH: rule.cleanup.on_branch_delete,
        EnvironmentSource.TAG: rule.cleanup.on_tag_delete,
        EnvironmentSource.PULL_REQUEST: rule.cleanup.on_pr_close,
    }
    return actions.get(found.source) is CleanupAction.PRUNE


def _revalidate(
    attempt: Attempt, sync: RuleSync, versions: Mapping[str, int], work: RuleWork
) -> RuleWork | None:
    """Return the work as it is under the locks; None if it is about other targets by now."""
    if ledgers.versions(sync.rule.name, sync.event.repo) == versions:
        return work
    again = _prepare(attempt, sync)
    if again.target_ids != work.target_ids:
        return None
    generations = {target.destination.id: target.generation for target in work.targets}
    for target in again.targets:
        target.generation = generations[target.destination.id]
    return again


def _carry_out(attempt: Attempt, sync: RuleSync, work: RuleWork) -> RuleSyncOutcome:
    if work.status:
        return attempt.finish_rule_sync(sync, results.outcome(work.status, work.ref_state))
    if work.tree is None:
        return clean_up(attempt, work.ref_state, work.targets)
    return apply_targets(attempt, work.ref_state, work.targets, work.tree)


def run_heal(attempt: Attempt, sync: RuleSync) -> RuleSyncOutcome:
    """Write the ledger's commit again at one target, whatever the ref is now.

    The outcome is `superseded` if the ledger is no longer the one that the watcher compared with.
    """
    ledger = _healable_ledger(attempt, sync)
    if ledger is None or ledger.applied is None:
        return attempt.finish_rule_sync(sync, results.outcome("superseded"))
    ref_state = _baseline_state(attempt, sync, ledger)
    tree = attempt.tree(ref_state.source, ref_state.head, ref=sync.event.ref)
    applied = ledger.applied
    files = TargetFiles(env=ledger.env, files=applied.files, missing=applied.missing_files())
    target = place_target(attempt, sync, files, sync.event)
    with lock_destinations(attempt, [target]):
        current = _healable_ledger(attempt, sync)
        if current is None or target.destination.id != current.destination_id:
            return attempt.finish_rule_sync(sync, results.outcome("superseded"))
        target.ledger = current
        return apply_targets(attempt, ref_state, [target], tree)


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


def run_purge(attempt: Attempt, sync: RuleSync) -> RuleSyncOutcome:
    """Delete what an orphan owns, except protected keys and those with the marker of another.

    Raises TaskError, SinkError, RuleSyncFailed, LostTask.
    """
    row = ledgers.get_row(attempt.request.purge)
    if row is None or not is_orphan(attempt.bundle, row, attempt.ports.open_sink):
        return attempt.finish_rule_sync(sync, results.outcome("superseded"))
    target = _purged_target(attempt, row)
    with lock_destinations(attempt, [target]):
        target.ledger = ledgers.get(row.id)
        if target.ledger is None:
            return attempt.finish_rule_sync(sync, results.outcome("superseded"))
        outcome = clean_up(attempt, _purge_state(sync, target.ledger), [target])
        if not target.ledger.retained:
            ledger_records.delete(target.ledger.unit_id, target.ledger.version)
        return outcome


def _purged_target(attempt: Attempt, row: LedgerTarget) -> Target:
    known = {each.name: each for each in attempt.bundle.datasources}
    if row.datasource not in known:
        detail = f"datasource {row.datasource!r} is not in the bundle: release the target instead"
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
    places = (place, replace(place, rendered=""))  # the same host, database, bucket or folder?
    if all(sink.destination(each).id != row.destination_id for each in places):
        detail = (
            f"datasource {row.datasource!r} now points to another place: release the target instead"
        )
        raise TaskError("destination_invalid", detail)
    return Target(
        files=TargetFiles(env=row.env),
        place=place,
        destination=ledgers.destination_of(row),
        sink=GuardedSink(sink, attempt.heartbeat),
        ledger=None,
    )


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
