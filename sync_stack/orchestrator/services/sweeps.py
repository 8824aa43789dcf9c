"""Sweeps: what hints, workers or webhooks have lost is found again (reference: sync-stack 4.1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from kernel import clock
from sync_stack.core.tasks import Change, State, TaskError
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.selectors import ledgers, refs, tasks
from sync_stack.orchestrator.services import counters, journals, ref_records, task_transitions

Publish = Callable[[Sequence[str]], None]
WAKE_LIMIT: Final = 1000
FRESH_S: Final = 2.0
SOONEST_S: Final = 0.1
AGAIN_S: Final = 15.0
OVERDUE_S: Final = 60.0  # then it is published however long the queue is
SILENCE_S: Final = 25.0


def wake(publish: Publish, queued: Callable[[], int] = lambda: 0) -> int:
    """Publish what waits and was not published lately; how many.

    `queued`: messages that nobody has taken yet. As many tasks need no second one for now: a
    backlog that is published again and again hides the messages that are new.
    """
    now = clock.now()
    due = _due(now, AGAIN_S)
    known = queued() if due else 0
    lacking = due[: max(0, len(due) - known)]
    if known:
        lacking = list(dict.fromkeys([*lacking, *_due(now, OVERDUE_S)]))
    publish(lacking)
    return len(lacking)


def until_due(longest_s: float) -> float:
    """Seconds until the next retry is due: one that comes just after a sweep waits for no other."""
    now = clock.now()
    soonest = tasks.next_retry(after=now, until=now + timedelta(seconds=longest_s))
    return max(SOONEST_S, (soonest - now).total_seconds()) if soonest else longest_s


def _due(now: datetime, again_s: float) -> list[str]:
    fresh, again = now - timedelta(seconds=FRESH_S), now - timedelta(seconds=again_s)
    return tasks.to_publish(now, fresh=fresh, again=again, limit=WAKE_LIMIT)


@dataclass(slots=True)
class LostWorkerDetector:
    """Tells lost workers by beats that stand still on this process's own clock."""

    clock: Callable[[], float] = time.monotonic
    _seen: dict[tuple[str, int], tuple[int, float]] = field(default_factory=dict)

    def sweep(self, publish: Publish) -> int:
        """How many tasks were taken from lost workers."""
        now, running, lost = self.clock(), tasks.running(), []
        for task_id, attempt, beat in running:
            known = self._seen.get((task_id, attempt))
            if known is None or known[0] != beat:
                self._seen[task_id, attempt] = (beat, now)
            elif now - known[1] >= SILENCE_S and _lose(task_id, attempt, beat):
                lost.append(task_id)
        alive = {(task_id, attempt) for task_id, attempt, _beat in running}
        self._seen = {key: seen for key, seen in self._seen.items() if key in alive}
        publish(lost)
        return len(lost)


def _lose(task_id: str, attempt: int, beat: int) -> bool:
    task = tasks.get(task_id)
    if task is None:
        return False
    error = TaskError("worker_lost", "the worker was lost")
    fields: dict[str, Any] = {"error": error.as_dict(), "message": "retrying"}
    dead = task.attempt >= task.max_attempts
    if dead:
        fields |= {"message": error.code, "next_attempt_at": None}
    else:
        fields |= {"next_attempt_at": clock.now(), "published_at": None}
    change = Change.EXHAUSTED if dead else Change.FAILED_FOR_NOW
    taken = task_transitions.lose(task_id, attempt, beat, change, **fields)
    if taken:
        counters.ended(task.kind, State.DEAD if dead else State.RETRYING)
    if taken and dead:
        counters.failed(error.code)
    elif taken:
        counters.retried(error.code)
    return taken


def retain(limit: int = 1000) -> int:
    """Delete terminal tasks whose time is over, unless ledgers or ref records name them."""
    before = clock.now() - timedelta(seconds=conf.task_retention_s())
    _drop_refs(before)
    named = ledgers.named_tasks() | refs.named_tasks()
    old = [name for name in tasks.terminal_ids(before, limit) if name not in named]
    task_transitions.delete(old)
    _drop_journals(limit)
    return len(old)


def _drop_refs(before: datetime) -> None:
    """Records without unit, of refs that nothing was told of for as long as tasks are kept."""
    for record, task_id in refs.without_unit().items():
        task = tasks.get(task_id)
        if task is None or (task.finished_at is not None and task.finished_at < before):
            ref_records.delete(record, task_id)


def _drop_journals(limit: int) -> None:
    """Those that no intent names, of tasks that are over: a running one is about to name its."""
    owners = journals.tasks_of(journals.unnamed(limit))
    for journal, task_id in owners.items():
        task = tasks.get(task_id)
        if task is None or task.finished_at is not None:
            journals.delete(journal)
