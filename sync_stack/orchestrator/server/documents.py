"""Rows as the documents of the HTTP API and of `-o json`.

(reference: sync-stack 4.10, 4.11, 6.4)
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kernel import clock
from sync_stack.core.tasks import TERMINAL, State
from sync_stack.orchestrator.domain.target_lag import TargetLag
from sync_stack.orchestrator.domain.task_documents import TaskResult
from sync_stack.orchestrator.models import Drift, LedgerTarget, Task
from sync_stack.orchestrator.selectors.lags import UnappliedRef

_TASK_TEXTS: Final = (
    "platform",
    "datasource",
    "tenant",
    "delivery_id",
    "correlation_id",
    "bundle_digest",
    "retry_of",
    "superseded_by",
    "approved_by",
)
_INTERNAL: Final = frozenset({"unit_id", "destination_id", "committed"})
_TASK_TIMES: Final = ("next_attempt_at", "created_at", "started_at", "finished_at")
_TARGET_FIELDS: Final = (
    "rule_id",
    "repo",
    "env",
    "datasource",
    "destination",
    "commit",
    "ref",
    "generation",
    "keys",
    "applied_at",
    "last_task_id",
    "status",
    "stale_since",
)


def task_document(task: Task, *, whole: bool = True) -> dict[str, object]:
    """Return a task; lists (`whole` False) leave out `result.files` and warnings of targets."""
    made: dict[str, object] = {
        "task_id": task.id,
        "kind": task.kind,
        "state": task.state,
        "message": task.message,
        "attempt": task.attempt,
        "max_attempts": task.max_attempts,
    }
    made |= _without_empty({name: getattr(task, name) for name in _TASK_TEXTS})
    times = {name: getattr(task, name) for name in _TASK_TIMES}
    made |= {name: clock.rfc3339(instant) for name, instant in times.items() if instant}
    if events := task.request.get("events"):
        made["event"] = events[0]
        if len(events) > 1:
            made["events"] = events
    if task.progress:
        made["progress"] = task.progress
    if task.error:
        made["error"] = task.error
    if State(task.state) in TERMINAL:
        made["duration_ms"] = task.duration_ms
        made["result"] = _result(TaskResult.of(task.result), whole=whole)
    return made


def _result(result: TaskResult, *, whole: bool) -> dict[str, object]:
    """Return a result without the internal and the empty members of its targets."""
    hidden = _INTERNAL if whole else _INTERNAL | {"warnings"}
    fields = result.as_json()
    if not whole:
        del fields["files"]
    targets = [
        {
            name: value
            for name, value in target.as_json().items()
            if name not in hidden and value not in ("", (), None)
        }
        for target in result.targets
    ]
    return fields | {"targets": targets}


def target_document(target: LedgerTarget, lag: TargetLag | None = None) -> dict[str, object]:
    """Return a target; `behind` says why it does not hold the head of its ref."""
    fields = {name: getattr(target, name) for name in _TARGET_FIELDS}
    made = {"unit_id": target.id, "stale": bool(target.stale_since)} | _without_empty(fields)
    return made | ({"behind": lag.as_json()} if lag else {})


def unapplied_document(ref: UnappliedRef) -> dict[str, object]:
    """Return a ref of which nothing was applied yet."""
    named = {"rule_id": ref.rule, "repo": ref.repo, "ref": ref.ref, "datasource": ref.datasource}
    return _without_empty(named) | {"behind": ref.lag.as_json()}


def drift_document(drift: Drift) -> dict[str, object]:
    fields = {
        field.name: getattr(drift, field.name)
        for field in drift._meta.fields  # noqa: SLF001 - Django's public name
        if field.name not in ("id", "version", "unit_id", "slot")
    }
    shown = {
        name: clock.rfc3339(value) if isinstance(value, datetime) else value
        for name, value in fields.items()
    }
    return {"drift_id": drift.id} | _without_empty(shown)


def _without_empty(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in ("", None, {})}
