"""Heal a target: write the baseline of its ledger back (reference: sync-stack 6.5)."""

from __future__ import annotations

from sync_stack.core.ledger import Ledger
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.execution import results
from sync_stack.orchestrator.services.execution.apply import apply_targets
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.ref_state import (
    RefState,
    git_source,
    overrides_at,
    rule_digest,
)
from sync_stack.orchestrator.services.execution.targets import (
    TargetFiles,
    lock_destinations,
    place_target,
)
from sync_stack.repositories import Remote


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
