"""Errors and outcomes of rule syncs as the task stores them (reference: sync-stack 4.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db import Error as StoreError

from kernel.redaction import known_secrets
from sync_stack.configuration.secrets import SecretAbsent, SecretError
from sync_stack.core.journal import JournalRecord
from sync_stack.core.ownership import PlanRefused
from sync_stack.core.plan import Plan, PlanRequest
from sync_stack.core.shaping import Shaped, ShapingError
from sync_stack.core.sink import SinkError
from sync_stack.core.tasks import TaskError, most_significant
from sync_stack.orchestrator.services.execution.attempt import RuleSync
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.target_plan import TargetPlan
from sync_stack.orchestrator.services.execution.targets import Target
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
            found = _of_shaping(error)
        case SinkError():
            found = _masked(error.code, error.detail, retry_after_s=error.retry_after_s)
        case PlanRefused():
            found = _masked(error.code, error.detail, keys=error.keys)
        case GitError():
            found = _masked(
                error.code, error.detail, file=error.file, retry_after_s=error.retry_after_s
            )
        case SecretError():
            is_absent = isinstance(error, SecretAbsent)
            found = _masked("secret_unavailable", str(error), retryable=not is_absent)
        case StoreError():
            found = TaskError("store_unavailable", type(error).__name__)
        case _:
            found = TaskError("internal_error", type(error).__name__)
    return found


def _masked(code: str, detail: str, **facts: Any) -> TaskError:
    return TaskError(code, known_secrets.mask(detail), **facts)


def _of_shaping(error: ShapingError) -> TaskError:
    return TaskError(
        error.code,
        known_secrets.mask(error.detail),
        file=error.file,
        line=error.line,
        column=error.column,
        retryable=error.retryable,
    )


def outcome(message: str, ref_state: RefState | None = None, **fields: Any) -> dict[str, Any]:
    """Return the outcome of a rule sync as the task stores it."""
    made: dict[str, Any] = {
        "message": message,
        "targets": [],
        "files": [],
        "error": None,
        "commit": "",
    }
    if ref_state is not None:
        made |= {"commit": ref_state.head, "rule_digest": ref_state.rule_digest}
    made |= fields
    if made["error"] and not made["files"]:
        made["files"] = _failed_files(made["error"])
    return made


def _failed_files(error: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entry of the file that an error names, if it names one."""
    if not error.get("file"):
        return []
    validation = "failed" if error["code"] == "schema_invalid" else "none"
    entry = {"file": error["file"], "keys": 0, "validation": validation, "status": "error"}
    return [entry]


def outcome_of_apply(
    ref_state: RefState, planned: Sequence[TargetPlan], idle: Sequence[tuple[Target, str]]
) -> dict[str, Any]:
    entries = [_applied(ref_state, each) for each in planned]
    messages = ["completed" if t["outcome"] == "applied" else "no_changes" for t in entries]
    return _with_idle(ref_state, planned, idle, entries, messages)


def outcome_of_plan(
    ref_state: RefState, planned: Sequence[TargetPlan], idle: Sequence[tuple[Target, str]]
) -> dict[str, Any]:
    entries = [_applied(ref_state, each) | _PLANNED | _going(each.plan) for each in planned]
    return _with_idle(ref_state, planned, idle, entries, ["dry_run_complete"] * len(entries))


def outcome_of_cleanup(ref_state: RefState, planned: Sequence[TargetPlan]) -> dict[str, Any]:
    entries = [_applied(ref_state, each) for each in planned]
    if ref_state.rule.dry_run:
        entries = [entry | _PLANNED for entry in entries]
        return outcome("dry_run_complete", ref_state, targets=entries)
    return outcome("cleaned_up" if entries else "ref_deleted", ref_state, targets=entries)


def _going(plan: Plan) -> dict[str, Any]:
    """Return the keys that the plan would delete."""
    return {"would_prune": sorted(plan.pruned | plan.would_prune)[:MAX_LISTED]}


def with_plans(
    ref_state: RefState,
    entries: Sequence[dict[str, Any]],
    planned: Sequence[TargetPlan],
    stopped: Plan | None,
) -> list[dict[str, Any]]:
    """Return the entries of a failed dry run with the counts of their plans.

    The target that failed gets the counts of the plan that a guard stopped.
    """
    plans = {
        each.target.destination.id + each.target.place.env: _applied(ref_state, each)
        | _PLANNED
        | _going(each.plan)
        for each in planned
    }
    counts = _counts(stopped) | _going(stopped) if stopped else {}
    return [
        entry | counts
        if entry.get("error")
        else plans.get(entry["destination_id"] + entry["env"], entry)
        for entry in entries
    ]


def _counts(plan: Plan) -> dict[str, int]:
    return {
        "written": len(plan.written),
        "pruned": len(plan.pruned),
        "unchanged": len(plan.unchanged),
        "adopted": len(plan.adopted),
    }


def without_files(
    target: Target, request: PlanRequest, plan: Plan, older: tuple[JournalRecord, ...]
) -> TargetPlan:
    empty = Shaped(values={}, keys={})
    return TargetPlan(
        target=target, shaped=empty, formats={}, request=request, plan=plan, older=older
    )


def failed_targets(
    ref_state: RefState,
    targets: Sequence[Target],
    culprit: Target,
    error: TaskError,
    planned: Sequence[TargetPlan],
) -> list[dict[str, Any]]:
    """Return an entry for each target: failed with the error, restored, inconsistent or skipped."""
    restored = {id(each.target): each.restored for each in planned}
    entries = []
    for target in targets:
        made = _target(ref_state, target) | {"restored": restored.get(id(target), 0)}
        if target.ledger is not None and target.ledger.intent is not None:
            made["outcome"] = "inconsistent"
        elif target is culprit:
            made["outcome"] = "failed"
        else:
            made["outcome"] = "restored" if made["restored"] else "skipped"
        if target is culprit:
            made["error"] = error.as_dict()
            made["would_prune"] = list(error.keys[:MAX_LISTED])
        entries.append(made)
    return entries


def _with_idle(
    ref_state: RefState,
    planned: Sequence[TargetPlan],
    idle: Sequence[tuple[Target, str]],
    entries: list[dict[str, Any]],
    messages: list[str],
) -> dict[str, Any]:
    for target, word in idle:
        entries.append(_target(ref_state, target) | {"outcome": "skipped"})
        messages.append(word)
    files = [entry for each in planned for entry in _files(each)]
    files += [entry for target, word in idle for entry in _idle_files(target, word)]
    message = most_significant(messages) if messages else "no_files"
    return outcome(message, ref_state, targets=entries, files=files)


def _target(ref_state: RefState, target: Target) -> dict[str, Any]:
    return {
        "unit_id": target.ledger.unit_id if target.ledger else "",
        "destination_id": target.destination.id,
        "committed": False,
        "rule_id": target.place.rule,
        "repo": target.place.repo,
        "ref": ref_state.event.ref,
        "env": target.place.env,
        "datasource": target.place.datasource,
        "destination": target.destination.name,
        "commit": ref_state.head,
        "generation": target.generation,
        "sync_mode": str(ref_state.rule.sync_mode),
        "outcome": "failed",
        "written": 0,
        "pruned": 0,
        "unchanged": 0,
        "restored": 0,
        "adopted": 0,
        "would_prune": [],
        "stale": False,
        "warnings": list(ref_state.warnings),
    }


def _applied(ref_state: RefState, planned: TargetPlan) -> dict[str, Any]:
    plan = planned.plan
    changed = plan.written or plan.pruned
    return _target(ref_state, planned.target) | {
        "committed": True,
        "sync_mode": str(plan.mode),
        "outcome": "applied" if changed else "no_changes",
        **_counts(plan),
        "would_prune": sorted(plan.would_prune)[:MAX_LISTED],
        "released": sorted(plan.released)[:MAX_LISTED],
        "warnings": [*ref_state.warnings, *map(str, planned.shaped.warnings)][:MAX_WARNINGS],
    }


def _files(planned: TargetPlan) -> list[dict[str, Any]]:
    env = planned.target.files.env
    entries = [
        {
            "file": found.file,
            "env": env,
            "format": planned.formats.get(found.file, ""),
            "keys": found.keys,
            "validation": found.validation,
            "status": "ok" if found.keys else "empty",
        }
        for found in planned.shaped.files
    ]
    return entries + [_missing(name, env) for name in sorted(planned.target.files.missing)]


def _idle_files(target: Target, word: str) -> list[dict[str, Any]]:
    if word == "no_files":
        return [_missing(name, target.files.env) for name in sorted(target.files.missing)]
    return [_missing(name, target.files.env) | {"status": "empty"} for name in target.files.files]


def _missing(name: str, env: str) -> dict[str, Any]:
    return {"file": name, "env": env, "keys": 0, "validation": "none", "status": "missing"}


def public_target(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry without internal and empty members."""
    hidden = ("unit_id", "destination_id", "committed")
    return {
        name: value
        for name, value in entry.items()
        if name not in hidden and value not in ("", [], None)
    }


def unplaced_target(sync: RuleSync, error: TaskError) -> dict[str, Any]:
    """Return the entry of a rule sync that failed before its targets were known."""
    return {
        "unit_id": "",
        "destination_id": "",
        "committed": False,
        "generation": 0,
        "rule_id": sync.rule.name,
        "repo": sync.event.repo,
        "ref": sync.event.ref,
        "datasource": sync.rule.datasource,
        "sync_mode": str(sync.rule.sync_mode),
        "outcome": "failed",
        "error": error.as_dict(),
    }


def result_of(done: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the `result` of a terminal task."""
    entries = [entry for outcome in done.values() for entry in outcome["targets"]]
    totals = ("written", "pruned", "unchanged", "restored", "adopted")
    sums: dict[str, Any] = {name: sum(entry.get(name, 0) for entry in entries) for name in totals}
    files = [entry for outcome in done.values() for entry in outcome["files"]]
    return sums | {"files": files, "targets": entries}


def facets_of(facets: str, result: Mapping[str, Any]) -> str:
    """Return the task's facets with the rules and environments of its targets."""
    lines = dict.fromkeys(filter(None, facets.split("\n")))
    for entry in result.get("targets", ()):
        lines[f"rule:{entry['rule_id']}"] = None
        if env := entry.get("env"):
            lines[f"env:{env}"] = None
    return "\n" + "\n".join(lines) + "\n"
