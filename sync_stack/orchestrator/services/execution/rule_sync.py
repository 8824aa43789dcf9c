"""Run one rule of a task: a sync, a heal or the purge of an orphan.

Each loads its own targets. Then all of them lock the destinations, finish what earlier attempts
left, plan all changes, write them and commit.
(reference: sync-stack 4.2, 4.7, 4.8, 6.5)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sync_stack.core.events import Effect
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome, TargetOutcome
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.destination_locks import lock_destinations
from sync_stack.orchestrator.services.execution import results
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.recovery import restore_targets
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.target_content import load_targets
from sync_stack.orchestrator.services.execution.target_plans import TargetFailed, plan_targets
from sync_stack.orchestrator.services.execution.target_writes import commit_targets, write_targets
from sync_stack.orchestrator.services.execution.targets import (
    RuleWork,
    Work,
    identity_of,
    load_baseline,
    load_orphan,
    load_ref,
    unfinished_targets,
)

_TRIES: Final = 5


@dataclass(eq=False)
class RuleSyncFailed(Exception):
    """A rule sync failed; `targets` are those of its outcome."""

    error: TaskError
    targets: Sequence[TargetOutcome]


def run_rule_sync(attempt: Attempt, sync: RuleSync) -> RuleSyncOutcome:
    """Bring the targets of a ref to its head; return the stored outcome.

    A permanent failure restores what an earlier attempt left half written.
    Raises RuleSyncFailed, LostTask, KNOWN_ERRORS, as those below.
    """
    if sync.effect is Effect.NONE:
        outcome = RuleSyncOutcome(message="pull_request_action_ignored")
        return attempt.finish_rule_sync(sync, outcome)
    try:
        return _run(attempt, sync, lambda: load_ref(attempt, sync))
    except (RuleSyncFailed, *KNOWN_ERRORS) as error:
        known = error.error if isinstance(error, RuleSyncFailed) else task_error(error)
        if not known.retryable and (unfinished := unfinished_targets(attempt, sync)):
            places = [target.destination for target in unfinished]
            with lock_destinations(places, attempt.claim, attempt.ports.publish) as generations:
                restore_targets(attempt, unfinished, generations)
        raise


def run_heal(attempt: Attempt, sync: RuleSync) -> RuleSyncOutcome:
    """Write what differs from the baseline of a target; return the stored outcome."""
    return _run(attempt, sync, lambda: load_baseline(attempt, sync))


def run_purge(attempt: Attempt, sync: RuleSync) -> RuleSyncOutcome:
    """Delete what an orphan owns; return the stored outcome."""
    return _run(attempt, sync, lambda: load_orphan(attempt, sync))


def _run(attempt: Attempt, sync: RuleSync, load: Callable[[], Work]) -> RuleSyncOutcome:
    for _ in range(_TRIES):
        if ended := _run_once(attempt, sync, load):
            return ended
    raise TaskError("destination_busy", "other syncs keep changing the targets")


def _run_once(attempt: Attempt, sync: RuleSync, load: Callable[[], Work]) -> RuleSyncOutcome | None:
    """Carry out the work under its locks; return None if it is about other targets by then."""
    versions = ledgers.versions(sync.rule.name, sync.event.repo)
    work = load()
    targets = work.targets if isinstance(work, RuleWork) else ()
    unfinished = unfinished_targets(attempt, sync, targets)
    places = [target.destination for target in (*targets, *unfinished)]
    with lock_destinations(places, attempt.claim, attempt.ports.publish) as generations:
        if ledgers.versions(sync.rule.name, sync.event.repo) != versions:
            known, work = work, load()
            if identity_of(work) != identity_of(known):
                return None
        restore_targets(attempt, unfinished, generations)
        if isinstance(work, RuleSyncOutcome):
            return attempt.finish_rule_sync(sync, work)
        for target in work.targets:
            target.generation = generations[target.destination.id]
        return _carry_out(attempt, sync, work)


def _carry_out(attempt: Attempt, sync: RuleSync, work: RuleWork) -> RuleSyncOutcome:
    """Load, plan and write all targets; commit. Raises RuleSyncFailed, LostTask."""
    ref_state, targets, dry_run = work.ref_state, work.targets, work.ref_state.rule.dry_run
    if not work.cleans_up:
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
    outcome = results.outcome_of(work, planned, found.idle)
    attempt.finish_rule_sync(sync, outcome)
    if not dry_run:
        commit_targets(attempt, work, planned)
    return outcome
