"""Rows of tasks; every change of a state goes through `core.tasks.advance`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F, Q

from kernel import clock
from sync_stack.core.ref_updates import RefUpdate
from sync_stack.core.ref_updates import outdated_tasks as moves_overtaken
from sync_stack.core.tasks import TERMINAL, Change, State, advance
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.rows.compare_and_set import changed, found, inserted

_KNOWN_MOVES: Final = 2000  # of a ref, the last ones


@dataclass(frozen=True, slots=True)
class Claim:
    """A task that is ours as long as it is RUNNING at this attempt."""

    task_id: str
    attempt: int

    @property
    def where(self) -> dict[str, Any]:
        return {"id": self.task_id, "attempt": self.attempt, "state": State.RUNNING}


def add(rows: Sequence[Task]) -> bool:
    """Insert them in one transaction; False when an (idempotency_key, try) exists."""
    return inserted(*rows)


def get(task_id: str) -> Task | None:
    return found(Task, id=task_id)


def newest_try(idempotency_key: str) -> Task | None:
    return Task.objects.filter(idempotency_key=idempotency_key).order_by("-try_number").first()


def newest_tries(idempotency_keys: Collection[str]) -> dict[str, Task]:
    """By key; keys without a task are left out."""
    rows = Task.objects.filter(idempotency_key__in=list(idempotency_keys)).order_by("try_number")
    return {row.idempotency_key: row for row in rows}


def count_waiting() -> int:
    return Task.objects.filter(state__in=[State.PENDING, State.RETRYING]).count()


def claim(task_id: str, now: datetime) -> Task | None:
    """The task, RUNNING at its next attempt; None when it is not due or somebody was faster."""
    task = get(task_id)
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
    if not changed(Task, where, version=task.version + 1, **fields):
        return None
    return get(task_id)


def _is_due(task: Task, now: datetime) -> bool:
    if task.state == State.RETRYING:
        return task.next_attempt_at is None or task.next_attempt_at <= now
    return task.state == State.PENDING


def beat(mine: Claim) -> bool:
    return changed(Task, mine.where, beat=F("beat") + 1)


def is_running(task_id: str, attempt: int) -> bool:
    return Task.objects.filter(**Claim(task_id, attempt).where).exists()


def write(mine: Claim, **fields: Any) -> bool:
    """Change what is no state; False when the task is no longer ours."""
    return changed(Task, mine.where, version=F("version") + 1, **fields)


def end(mine: Claim, change: Change, **fields: Any) -> bool:
    """Leave RUNNING. Raises IllegalTransition; False when the task is no longer ours."""
    state = advance(State.RUNNING, change)
    times: dict[str, Any] = {}
    if state in TERMINAL:
        task = get(mine.task_id)
        times = _times(task) if task else {}
    return write(mine, state=state, progress={}, **times, **fields)


def _times(task: Task) -> dict[str, Any]:
    now = clock.now()
    span = clock.milliseconds(now - (task.started_at or task.created_at))
    return {"finished_at": now, "duration_ms": max(0, span)}


def coalesce(task: Task, *, by: str) -> bool:
    """End a waiting task, as it was read, whose work another one has done."""
    return changed(
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


def waiting(task_ids: Sequence[str]) -> list[Task]:
    """Those of them that wait, oldest first, without what they left behind."""
    rows = Task.objects.filter(id__in=list(task_ids), state__in=[State.PENDING, State.RETRYING])
    return list(rows.order_by("id").defer("memory", "result", "progress"))


def coalescing(coalesce_key: str, *, than: str) -> list[str]:
    """Waiting tasks of the same ref, other than `than`."""
    if not coalesce_key:
        return []
    waiting = Task.objects.filter(
        coalesce_key=coalesce_key, state__in=[State.PENDING, State.RETRYING]
    ).exclude(id=than)
    return list(waiting.order_by("id").values_list("id", flat=True)[:1000])


def outdated_tasks(
    coalesce_key: str, waiting: Iterable[Task], heads: Collection[str]
) -> frozenset[str]:
    """Those of a ref's tasks whose commits it has left, as other deliveries of it say."""
    moves = [_move(task.id, task.facets) for task in waiting]
    if not moves or not coalesce_key:
        return frozenset()
    known = Task.objects.filter(coalesce_key=coalesce_key).order_by("-id")
    rows = known.values_list("id", "facets")[:_KNOWN_MOVES]
    return moves_overtaken(moves, [_move(*row) for row in rows], heads)


def _move(task_id: str, facets: str) -> RefUpdate:
    told = dict(line.partition(":")[::2] for line in facets.splitlines())
    return RefUpdate(task_id, told.get("before", ""), told.get("commit", ""))


def to_publish(now: datetime, *, fresh: datetime, again: datetime, limit: int) -> list[str]:
    """PENDING since before `fresh`, or RETRYING and due, and not published since `again`."""
    due = Q(state=State.PENDING, created_at__lte=fresh) | Q(
        state=State.RETRYING, next_attempt_at__lte=now
    )
    unpublished = Q(published_at__isnull=True) | Q(published_at__lte=again)
    waiting = Task.objects.filter(due & unpublished).order_by("id")
    return list(waiting.values_list("id", flat=True)[:limit])


def next_retry(*, after: datetime, until: datetime) -> datetime | None:
    """When the first of the tasks that wait between these two moments is due."""
    waiting = Task.objects.filter(
        state=State.RETRYING, next_attempt_at__gt=after, next_attempt_at__lte=until
    )
    return waiting.order_by("next_attempt_at").values_list("next_attempt_at", flat=True).first()


def mark_published(task_ids: Sequence[str], now: datetime) -> None:
    """A hint for the next sweep; no state, so no condition."""
    Task.objects.filter(id__in=list(task_ids)).update(published_at=now)


def make_due(destination_ids: Iterable[str], now: datetime) -> list[str]:
    """Tasks that wait for one of these destinations may go on; their ids."""
    waiting = Task.objects.filter(waiting_for__in=list(destination_ids), state=State.RETRYING)
    names = list(waiting.order_by("id").values_list("id", flat=True)[:100])
    for name in names:
        changed(Task, {"id": name, "state": State.RETRYING}, next_attempt_at=now, waiting_for="")
    return names


def running() -> list[tuple[str, int, int]]:
    """(id, attempt, beat) of all that run."""
    rows = Task.objects.filter(state=State.RUNNING).order_by("id")
    return list(rows.values_list("id", "attempt", "beat"))


def lose(task_id: str, attempt: int, last_beat: int, change: Change, **fields: Any) -> bool:
    """Take a task from a worker whose beat stands still."""
    where = Claim(task_id, attempt).where | {"beat": last_beat}
    task = get(task_id)
    state = advance(State.RUNNING, change)
    times = _times(task) if task and state in TERMINAL else {}
    return changed(
        Task, where, version=F("version") + 1, state=state, progress={}, **times, **fields
    )


def terminal_ids(before: datetime, limit: int) -> list[str]:
    rows = Task.objects.filter(finished_at__lt=before, state__in=list(TERMINAL))
    return list(rows.order_by("finished_at").values_list("id", flat=True)[:limit])


def delete(task_ids: Sequence[str]) -> None:
    Task.objects.filter(id__in=list(task_ids), state__in=list(TERMINAL)).delete()
