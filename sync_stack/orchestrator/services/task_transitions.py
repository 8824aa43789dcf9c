"""Conditional writes of tasks; every change of a state goes through `core.tasks.advance`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.db.models import F

from kernel import clock
from sync_stack.core.tasks import TERMINAL, Change, State, advance
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import tasks


def add(rows: Sequence[Task]) -> bool:
    """Insert tasks in one transaction; return False if an (idempotency_key, try) exists.

    Then nothing was written, except in MongoDB: it keeps the rows before that one.
    """
    if len(rows) <= 1:
        return all(row.insert() for row in rows)
    try:
        Task.objects.bulk_create(rows)
    except IntegrityError:
        return False
    return True


def claim(task_id: str, now: datetime) -> Task | None:
    """Claim a task; return it RUNNING at its next attempt, None if it is not due or was taken."""
    task = tasks.get(task_id)
    if task is None or not _is_due(task, now):
        return None
    fields = {
        "state": advance(State(task.state), Change.CLAIMED),
        "message": "running",
        "attempt": task.attempt + 1,
        "beat": task.beat + 1,
        "started_at": task.started_at or now,
        "next_attempt_at": None,
        "waiting_for": "",
        "progress": {"stage": "git", "ratio": 0.0},
    }
    rows = Task.objects.filter(id=task.id, version=task.version, state=task.state)
    taken = rows.update(version=task.version + 1, **fields)
    return tasks.get(task_id) if taken else None


def _is_due(task: Task, now: datetime) -> bool:
    if task.state == State.RETRYING:
        return task.next_attempt_at is None or task.next_attempt_at <= now
    return task.state == State.PENDING


def record_heartbeat(claimed: Claim) -> bool:
    return bool(Task.objects.filter(**claimed.where).update(beat=F("beat") + 1))


def write(claimed: Claim, **fields: Any) -> bool:
    """Update a claimed task without its state; return False if the claim was lost."""
    rows = Task.objects.filter(**claimed.where)
    return bool(rows.update(version=F("version") + 1, **fields))


def end(claimed: Claim, change: Change, **fields: Any) -> bool:
    """Leave RUNNING; return False if the claim was lost. Raises IllegalTransition."""
    return _end(claimed, claimed.where, change, fields)


def _end(
    claimed: Claim, where: Mapping[str, object], change: Change, fields: Mapping[str, Any]
) -> bool:
    state = advance(State.RUNNING, change)
    task = tasks.get(claimed.task_id) if state in TERMINAL else None
    times = _times(task) if task else {}
    ended = {**fields, "state": state, "progress": {}, **times}
    return bool(Task.objects.filter(**where).update(version=F("version") + 1, **ended))


def _times(task: Task) -> dict[str, object]:
    now = clock.now()
    span = clock.milliseconds(now - (task.started_at or task.created_at))
    return {"finished_at": now, "duration_ms": max(0, span)}


def supersede(task: Task, *, by: str) -> bool:
    """End a waiting task, if it is as it was read, whose work another task has done."""
    ended = Task.objects.filter(id=task.id, version=task.version, state=task.state).update(
        version=task.version + 1,
        state=advance(State(task.state), Change.SUPERSEDED),
        message="superseded",
        superseded_by=by,
        waiting_for="",
        next_attempt_at=None,
        **_times(task),
    )
    return bool(ended)


def mark_published(task_ids: Sequence[str], now: datetime) -> None:
    """Store when tasks were published: a hint for the next sweep."""
    Task.objects.filter(id__in=list(task_ids)).update(published_at=now)


def make_due(destination_ids: Iterable[str], now: datetime) -> list[str]:
    """Make tasks due that wait for one of these destinations; return their ids."""
    waiting = Task.objects.filter(waiting_for__in=list(destination_ids), state=State.RETRYING)
    names = list(waiting.order_by("id").values_list("id", flat=True)[:100])
    for name in names:
        rows = Task.objects.filter(id=name, state=State.RETRYING)
        rows.update(next_attempt_at=now, waiting_for="")
    return names


def expire_claim(claim: Claim, last_heartbeat: int, change: Change, **fields: Any) -> bool:
    """End the claim of a worker whose heartbeat has stopped, if it is still `last_heartbeat`."""
    return _end(claim, claim.where | {"beat": last_heartbeat}, change, fields)


def delete(task_ids: Sequence[str]) -> None:
    Task.objects.filter(id__in=list(task_ids), state__in=list(TERMINAL)).delete()
