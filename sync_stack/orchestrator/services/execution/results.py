"""Errors and outcomes of rule syncs as the task stores them (reference: sync-stack 4.10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from django.db import Error as StoreError
from msgspec.structs import replace

from kernel.redaction import known_secrets
from sync_stack.configuration.secrets import SecretAbsent, SecretError
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.ownership import PlanRefused
from sync_stack.core.plan import Plan
from sync_stack.core.sink import SinkError
from sync_stack.core.tasks import TaskError, most_significant
from sync_stack.orchestrator.domain.task_documents import (
    FileOutcome,
    RuleSyncOutcome,
    StoredError,
    TargetOutcome,
)
from sync_stack.orchestrator.services.execution.attempt import RuleSync
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.target_plans import TargetFailed, TargetPlan
from sync_stack.orchestrator.services.execution.targets import RuleWork, Target
from sync_stack.repositories import GitError

KNOWN_ERRORS: Final = (TaskError, GitError, SinkError, ShapingError, PlanRefused, SecretError)
MAX_LISTED: Final = 1000
MAX_WARNINGS: Final = 20
_PLANNED: Final = {"outcome": "planned", "committed": False}


def task_error(error: Exception) -> TaskError:
    """Return an error as a TaskError with secrets masked; an unknown one is `internal_error`."""
    match error:
        case TaskError():
            found = error
        case ShapingError():
            facts = {"line": error.line, "column": error.column, "retryable": error.retryable}
            found = _masked_error(error.code, error.detail, file=error.file, **facts)
        case SinkError():
            found = _masked_error(error.code, error.detail, retry_after_s=error.retry_after_s)
        case PlanRefused():
            found = _masked_error(error.code, error.detail, keys=error.keys)
        case GitError():
            found = _masked_error(
                error.code, error.detail, file=error.file, retry_after_s=error.retry_after_s
            )
        case SecretError():
            is_absent = isinstance(error, SecretAbsent)
            found = _masked_error("secret_unavailable", str(error), retryable=not is_absent)
        case StoreError():
            found = TaskError("store_unavailable", type(error).__name__)
        case _:
            found = TaskError("internal_error", type(error).__name__)
    return found


def _masked_error(code: str, detail: str, **facts: Any) -> TaskError:
    return TaskError(code, known_secrets.mask(detail), **facts)


def failed_outcome(
    sync: RuleSync, error: TaskError, targets: Sequence[TargetOutcome], commit: str
) -> RuleSyncOutcome:
    """Return the outcome of a failed rule sync, with the file that the error names.

    No `targets`: it failed before its targets were known.
    """
    stored = StoredError.of(error)
    unplaced = TargetOutcome(
        rule_id=sync.rule.name,
        repo=sync.event.repo,
        ref=sync.event.ref,
        datasource=sync.rule.datasource,
        sync_mode=str(sync.rule.sync_mode),
        error=stored,
    )
    validation = "failed" if error.code == "schema_invalid" else "none"
    file = FileOutcome(file=error.file, validation=validation, status="error")
    return RuleSyncOutcome(
        message=error.code,
        targets=tuple(targets) or (unplaced,),
        files=(file,) if error.file else (),
        error=stored,
        commit=commit,
    )


def outcome_of(
    work: RuleWork, planned: Sequence[TargetPlan], idle: Sequence[tuple[Target, str]]
) -> RuleSyncOutcome:
    """Return the outcome of a sync or a clean-up that was written, or planned in a dry run."""
    ref_state = work.ref_state
    if work.cleans_up:
        return _outcome_of_cleanup(ref_state, planned)
    if ref_state.rule.dry_run:
        targets = [_planned_outcome(ref_state, each) for each in planned]
        messages = ["dry_run_complete"] * len(targets)
    else:
        targets = [_applied_outcome(ref_state, each) for each in planned]
        messages = ["completed" if t.outcome == "applied" else "no_changes" for t in targets]
    files = [entry for each in planned for entry in _files(each)]
    for target, word in idle:
        targets.append(replace(_target(ref_state, target), outcome="skipped"))
        messages.append(word)
        if word == "no_files":
            files += _missing(target)
        else:
            env = target.files.env
            files += [FileOutcome(file=n, env=env, status="empty") for n in target.files.files]
    return RuleSyncOutcome(
        message=most_significant(messages) if messages else "no_files",
        targets=tuple(targets),
        files=tuple(files),
        commit=ref_state.head,
        rule_digest=ref_state.rule_digest,
    )


def _outcome_of_cleanup(ref_state: RefState, planned: Sequence[TargetPlan]) -> RuleSyncOutcome:
    message = "cleaned_up" if planned else "ref_deleted"
    targets = [_applied_outcome(ref_state, each) for each in planned]
    if ref_state.rule.dry_run:
        message = "dry_run_complete"
        targets = [replace(target, **_PLANNED) for target in targets]
    return RuleSyncOutcome(
        message=message,
        targets=tuple(targets),
        commit=ref_state.head,
        rule_digest=ref_state.rule_digest,
    )


def _counts(plan: Plan) -> dict[str, int]:
    return {
        "written": len(plan.written),
        "pruned": len(plan.pruned),
        "unchanged": len(plan.unchanged),
        "adopted": len(plan.adopted),
    }


def _keys_to_delete(plan: Plan) -> tuple[str, ...]:
    """Return the keys that the plan would delete."""
    return tuple(sorted(plan.pruned | plan.would_prune)[:MAX_LISTED])


def failed_targets(
    ref_state: RefState, targets: Sequence[Target], failure: TargetFailed
) -> list[TargetOutcome]:
    """Return the outcome of each target: failed with the error, restored, inconsistent, skipped.

    In a dry run they have the counts of their plans; the target that failed has those of the plan
    that a guard stopped.
    """
    error = task_error(failure.cause)
    plans = {id(each.target): each for each in failure.planned}
    found = []
    for target in targets:
        planned, is_culprit = plans.get(id(target)), target is failure.target
        if ref_state.rule.dry_run and planned:
            found.append(_planned_outcome(ref_state, planned))
            continue
        restored = planned.restored if planned else 0
        made = replace(_target(ref_state, target), restored=restored)
        if target.has_intent:
            word = "inconsistent"
        elif is_culprit:
            word = "failed"
        else:
            word = "restored" if restored else "skipped"
        made = replace(made, outcome=word)
        if is_culprit:
            stored, kept = StoredError.of(error), tuple(error.keys[:MAX_LISTED])
            made = replace(made, error=stored, would_prune=kept)
            if stopped := failure.stopped:
                made = replace(made, **_counts(stopped), would_prune=_keys_to_delete(stopped))
        found.append(made)
    return found


def _target(ref_state: RefState, target: Target) -> TargetOutcome:
    return TargetOutcome(
        unit_id=target.ledger.unit_id if target.ledger else "",
        destination_id=target.destination.id,
        rule_id=target.place.rule,
        repo=target.place.repo,
        ref=ref_state.event.ref,
        env=target.place.env,
        datasource=target.place.datasource,
        destination=target.destination.name,
        commit=ref_state.head,
        generation=target.generation,
        sync_mode=str(ref_state.rule.sync_mode),
        warnings=tuple(ref_state.warnings),
    )


def _applied_outcome(ref_state: RefState, planned: TargetPlan) -> TargetOutcome:
    plan = planned.plan
    changed = plan.written or plan.pruned
    warnings = [*ref_state.warnings, *map(str, planned.content.shaped.warnings)][:MAX_WARNINGS]
    return replace(
        _target(ref_state, planned.target),
        committed=True,
        sync_mode=str(plan.mode),
        outcome="applied" if changed else "no_changes",
        would_prune=tuple(sorted(plan.would_prune)[:MAX_LISTED]),
        released=tuple(sorted(plan.released)[:MAX_LISTED]),
        warnings=tuple(warnings),
        **_counts(plan),
    )


def _planned_outcome(ref_state: RefState, planned: TargetPlan) -> TargetOutcome:
    applied = _applied_outcome(ref_state, planned)
    return replace(applied, **_PLANNED, would_prune=_keys_to_delete(planned.plan))


def _files(planned: TargetPlan) -> list[FileOutcome]:
    env = planned.target.files.env
    found = [
        FileOutcome(
            file=each.file,
            env=env,
            format=planned.content.formats.get(each.file, ""),
            keys=each.keys,
            validation=each.validation,
            status="ok" if each.keys else "empty",
        )
        for each in planned.content.shaped.files
    ]
    return found + _missing(planned.target)


def _missing(target: Target) -> list[FileOutcome]:
    files = target.files
    return [FileOutcome(file=n, env=files.env, status="missing") for n in sorted(files.missing)]


def facets_of(facets: str, targets: Iterable[TargetOutcome]) -> str:
    """Return the task's facets with the rules and environments of its targets."""
    lines = dict.fromkeys(filter(None, facets.split("\n")))
    for target in targets:
        lines[f"rule:{target.rule_id}"] = None
        if target.env:
            lines[f"env:{target.env}"] = None
    return "\n" + "\n".join(lines) + "\n"
