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
from sync_stack.orchestrator.services.execution.target_plan import Planned
from sync_stack.orchestrator.services.execution.targets import Unit
from sync_stack.repositories import GitError

KNOWN_ERRORS: Final = (TaskError, GitError, SinkError, ShapingError, PlanRefused, SecretError)
MAX_LISTED: Final = 1000
MAX_WARNINGS: Final = 20
_PLANNED: Final = {"outcome": "planned", "committed": False}


def task_error(error: Exception) -> TaskError:
    """The fact behind an error, masked; anything unforeseen is `internal_error`."""
    match error:
        case TaskError():
            found = error
        case ShapingError():
            found = _of_shaping(error)
        case SinkError():
            found = _told(error.code, error.detail, retry_after_s=error.retry_after_s)
        case PlanRefused():
            found = _told(error.code, error.detail, keys=error.keys)
        case GitError():
            found = _told(
                error.code, error.detail, file=error.file, retry_after_s=error.retry_after_s
            )
        case SecretError():
            is_absent = isinstance(error, SecretAbsent)
            found = _told("secret_unavailable", str(error), retryable=not is_absent)
        case StoreError():
            found = TaskError("store_unavailable", type(error).__name__)
        case _:
            found = TaskError("internal_error", type(error).__name__)
    return found


def _told(code: str, detail: str, **facts: Any) -> TaskError:
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


def outcome(message: str, reading: RefState | None = None, **fields: Any) -> dict[str, Any]:
    """What a part leaves in the task's memory."""
    made: dict[str, Any] = {
        "message": message,
        "targets": [],
        "files": [],
        "error": None,
        "commit": "",
    }
    if reading is not None:
        made |= {"commit": reading.head, "rule_digest": reading.rule_digest}
    made |= fields
    if made["error"] and not made["files"]:
        made["files"] = _failed_files(made["error"])
    return made


def _failed_files(error: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The file that an error names."""
    if not error.get("file"):
        return []
    validation = "failed" if error["code"] == "schema_invalid" else "none"
    entry = {"file": error["file"], "keys": 0, "validation": validation, "status": "error"}
    return [entry]


def outcome_of_apply(
    reading: RefState, planned: Sequence[Planned], idle: Sequence[tuple[Unit, str]]
) -> dict[str, Any]:
    targets = [_applied(reading, each) for each in planned]
    messages = ["completed" if t["outcome"] == "applied" else "no_changes" for t in targets]
    return _with_idle(reading, planned, idle, targets, messages)


def outcome_of_plan(
    reading: RefState, planned: Sequence[Planned], idle: Sequence[tuple[Unit, str]]
) -> dict[str, Any]:
    targets = [_applied(reading, each) | _PLANNED | _going(each.plan) for each in planned]
    return _with_idle(reading, planned, idle, targets, ["dry_run_complete"] * len(targets))


def outcome_of_cleanup(reading: RefState, planned: Sequence[Planned]) -> dict[str, Any]:
    targets = [_applied(reading, each) for each in planned]
    if reading.rule.dry_run:
        targets = [target | _PLANNED for target in targets]
        return outcome("dry_run_complete", reading, targets=targets)
    return outcome("cleaned_up" if targets else "ref_deleted", reading, targets=targets)


def _going(plan: Plan) -> dict[str, Any]:
    """The keys that the plan would delete."""
    return {"would_prune": sorted(plan.pruned | plan.would_prune)[:MAX_LISTED]}


def with_plans(
    reading: RefState,
    targets: Sequence[dict[str, Any]],
    planned: Sequence[Planned],
    stopped: Plan | None,
) -> list[dict[str, Any]]:
    """Targets of a dry run that failed, with what the plans say.

    The one with the error gets the counts of the plan that its guard stops.
    """
    plans = {
        each.unit.destination.id + each.unit.place.env: _applied(reading, each)
        | _PLANNED
        | _going(each.plan)
        for each in planned
    }
    counts = _counts(stopped) | _going(stopped) if stopped else {}
    return [
        target | counts
        if target.get("error")
        else plans.get(target["destination_id"] + target["env"], target)
        for target in targets
    ]


def _counts(plan: Plan) -> dict[str, int]:
    return {
        "written": len(plan.written),
        "pruned": len(plan.pruned),
        "unchanged": len(plan.unchanged),
        "adopted": len(plan.adopted),
    }


def without_files(
    unit: Unit, request: PlanRequest, plan: Plan, older: tuple[JournalRecord, ...]
) -> Planned:
    empty = Shaped(values={}, keys={})
    return Planned(unit=unit, shaped=empty, formats={}, request=request, plan=plan, older=older)


def failed_targets(
    reading: RefState,
    units: Sequence[Unit],
    culprit: Unit,
    error: TaskError,
    planned: Sequence[Planned],
) -> list[dict[str, Any]]:
    """One a unit: the one that failed with its error, others as restored or skipped."""
    restored = {id(each.unit): each.restored for each in planned}
    targets = []
    for unit in units:
        made = _target(reading, unit) | {"restored": restored.get(id(unit), 0)}
        if unit.ledger is not None and unit.ledger.intent is not None:
            made["outcome"] = "inconsistent"
        elif unit is culprit:
            made["outcome"] = "failed"
        else:
            made["outcome"] = "restored" if made["restored"] else "skipped"
        if unit is culprit:
            made["error"] = error.as_dict()
            made["would_prune"] = list(error.keys[:MAX_LISTED])
        targets.append(made)
    return targets


def _with_idle(
    reading: RefState,
    planned: Sequence[Planned],
    idle: Sequence[tuple[Unit, str]],
    targets: list[dict[str, Any]],
    messages: list[str],
) -> dict[str, Any]:
    for unit, word in idle:
        targets.append(_target(reading, unit) | {"outcome": "skipped"})
        messages.append(word)
    files = [entry for each in planned for entry in _files(each)]
    files += [entry for unit, word in idle for entry in _idle_files(unit, word)]
    message = most_significant(messages) if messages else "no_files"
    return outcome(message, reading, targets=targets, files=files)


def _target(reading: RefState, unit: Unit) -> dict[str, Any]:
    return {
        "unit_id": unit.ledger.unit_id if unit.ledger else "",
        "destination_id": unit.destination.id,
        "committed": False,
        "rule_id": unit.place.rule,
        "repo": unit.place.repo,
        "ref": reading.event.ref,
        "env": unit.place.env,
        "datasource": unit.place.datasource,
        "destination": unit.destination.name,
        "commit": reading.head,
        "generation": unit.generation,
        "sync_mode": str(reading.rule.sync_mode),
        "outcome": "failed",
        "written": 0,
        "pruned": 0,
        "unchanged": 0,
        "restored": 0,
        "adopted": 0,
        "would_prune": [],
        "stale": False,
        "warnings": list(reading.warnings),
    }


def _applied(reading: RefState, planned: Planned) -> dict[str, Any]:
    plan = planned.plan
    changed = plan.written or plan.pruned
    return _target(reading, planned.unit) | {
        "committed": True,
        "sync_mode": str(plan.mode),
        "outcome": "applied" if changed else "no_changes",
        **_counts(plan),
        "would_prune": sorted(plan.would_prune)[:MAX_LISTED],
        "released": sorted(plan.released)[:MAX_LISTED],
        "warnings": [*reading.warnings, *map(str, planned.shaped.warnings)][:MAX_WARNINGS],
    }


def _files(planned: Planned) -> list[dict[str, Any]]:
    env = planned.unit.files.env
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
    return entries + [_missing(name, env) for name in sorted(planned.unit.files.missing)]


def _idle_files(unit: Unit, word: str) -> list[dict[str, Any]]:
    if word == "no_files":
        return [_missing(name, unit.files.env) for name in sorted(unit.files.missing)]
    return [_missing(name, unit.files.env) | {"status": "empty"} for name in unit.files.files]


def _missing(name: str, env: str) -> dict[str, Any]:
    return {"file": name, "env": env, "keys": 0, "validation": "none", "status": "missing"}


def shown_target(target: Mapping[str, Any]) -> dict[str, Any]:
    """As the task record has it."""
    hidden = ("unit_id", "destination_id", "committed")
    return {
        name: value
        for name, value in target.items()
        if name not in hidden and value not in ("", [], None)
    }


def bare_target(part: RuleSync, error: TaskError) -> dict[str, Any]:
    """Of a part that failed before its units were known."""
    return {
        "unit_id": "",
        "destination_id": "",
        "committed": False,
        "generation": 0,
        "rule_id": part.rule.name,
        "repo": part.event.repo,
        "ref": part.event.ref,
        "datasource": part.rule.datasource,
        "sync_mode": str(part.rule.sync_mode),
        "outcome": "failed",
        "error": error.as_dict(),
    }


def result_of(done: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The `result` of a terminal task."""
    targets = [target for outcome in done.values() for target in outcome["targets"]]
    totals = ("written", "pruned", "unchanged", "restored", "adopted")
    sums: dict[str, Any] = {name: sum(target.get(name, 0) for target in targets) for name in totals}
    files = [entry for outcome in done.values() for entry in outcome["files"]]
    return sums | {"files": files, "targets": targets}


def facets_of(facets: str, result: Mapping[str, Any]) -> str:
    """The task's facets with what its targets add: rules and environments."""
    lines = dict.fromkeys(filter(None, facets.split("\n")))
    for target in result.get("targets", ()):
        lines[f"rule:{target['rule_id']}"] = None
        if env := target.get("env"):
            lines[f"env:{env}"] = None
    return "\n" + "\n".join(lines) + "\n"
