"""Conditional writes of tasks; every change of a state goes through `core.tasks.advance`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F

from kernel import clock
from sync_stack.core.tasks import TERMINAL, Change, State, advance
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.services.compare_and_set import insert_if_absent, update_if_unchanged


def add(rows: Sequence[Task]) -> bool:
    """Insert them in one transaction; False when an (idempotency_key, try) exists."""
    return insert_if_absent(*rows)


def claim(task_id: str, now: datetime) -> Task | None:
    """The task, RUNNING at its next attempt; None when it is not due or somebody was faster."""
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
    where = {"id": task.id, "version": task.version, "state": task.state}
    if not update_if_unchanged(Task, where, version=task.version + 1, **fields):
        return None
    return tasks.get(task_id)


def _is_due(task: Task, now: datetime) -> bool:
    if task.state == State.RETRYING:
        return task.next_attempt_at is None or task.next_attempt_at <= now
    return task.state == State.PENDING


def beat(mine: Claim) -> bool:
    return update_if_unchanged(Task, mine.where, beat=F("beat") + 1)


def write(mine: Claim, **fields: Any) -> bool:
    """Change what is no state; False when the task is no longer ours."""
    return update_if_unchanged(Task, mine.where, version=F("version") + 1, **fields)


def end(mine: Claim, change: Change, **fields: Any) -> bool:
    """Leave RUNNING. Raises IllegalTransition; False when the task is no longer ours."""
    state = advance(State.RUNNING, change)
    times: dict[str, Any] = {}
    if state in TERMINAL:
        task = tasks.get(mine.task_id)
        times = _times(task) if task else {}
    return write(mine, state=state, progress={}, **times, **fields)


def _times(task: Task) -> dict[str, Any]:
    now = clock.now()
    span = clock.milliseconds(now - (task.started_at or task.created_at))
    return {"finished_at": now, "duration_ms": max(0, span)}


def coalesce(task: Task, *, by: str) -> bool:
    """End a waiting task, as it was read, whose work another one has done."""
    return update_if_unchanged(
        Task,
        {"id": task.id, "version": task.version, "state": task.state},
        version=task.version + 1,
        state=advance(State(task.state), Change.SUPERSEDED),
        message="superseded",
        superseded_by=by,
        waiting_for="",
        next_attempt_at=None,
        **_times(task),
    )


def mark_published(task_ids: Sequence[str], now: datetime) -> None:
    """A hint for the next sweep; no state, so no condition."""
    Task.objects.filter(id__in=list(task_ids)).update(published_at=now)


def make_due(destination_ids: Iterable[str], now: datetime) -> list[str]:
    """Tasks that wait for one of these destinations may go on; their ids."""
    waiting = Task.objects.filter(waiting_for__in=list(destination_ids), state=State.RETRYING)
    names = list(waiting.order_by("id").values_list("id", flat=True)[:100])
    for name in names:
        update_if_unchanged(
            Task, {"id": name, "state": State.RETRYING}, next_attempt_at=now, waiting_for=""
        )
    return names


def lose(task_id: str, attempt: int, last_beat: int, change: Change, **fields: Any) -> bool:
    """Take a task from a worker whose beat stands still."""
    where = Claim(task_id, attempt).where | {"beat": last_beat}
    task = tasks.get(task_id)
    state = advance(State.RUNNING, change)
    times = _times(task) if task and state in TERMINAL else {}
    return update_if_unchanged(
        Task, where, version=F("version") + 1, state=state, progress={}, **times, **fields
    )


def delete(task_ids: Sequence[str]) -> None:
    Task.objects.filter(id__in=list(task_ids), state__in=list(TERMINAL)).delete()
