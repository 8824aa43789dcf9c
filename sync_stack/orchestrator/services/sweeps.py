"""Sweeps: publish due tasks, expire claims of lost workers, retain (reference: sync-stack 4.1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kernel import clock
from sync_stack.core.tasks import Change, State, TaskError
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.selectors import ledgers, refs, tasks
from sync_stack.orchestrator.services import counters, ledger_records, ref_records, task_transitions

Publish = Callable[[Sequence[str]], None]
WAKE_LIMIT: Final = 1000
FRESH_S: Final = 2.0
SOONEST_S: Final = 0.1
AGAIN_S: Final = 15.0
OVERDUE_S: Final = 60.0  # then it is published, however long the queue is
SILENCE_S: Final = 25.0


def wake(publish: Publish, queued: Callable[[], int] = lambda: 0) -> int:
    """Publish due tasks that were not published lately; return how many.

    `queued` returns the messages that no worker has taken yet. As many tasks need no second one:
    a backlog that is published again and again hides new messages.
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
    """Return the seconds until the next retry is due, at most `longest_s`."""
    now = clock.now()
    soonest = tasks.next_retry(after=now, until=now + timedelta(seconds=longest_s))
    return max(SOONEST_S, (soonest - now).total_seconds()) if soonest else longest_s


def _due(now: datetime, again_s: float) -> list[str]:
    fresh, again = now - timedelta(seconds=FRESH_S), now - timedelta(seconds=again_s)
    return tasks.to_publish(now, fresh=fresh, again=again, limit=WAKE_LIMIT)


@dataclass(slots=True)
class LostWorkerDetector:
    """Detect lost workers: their heartbeats stand still by the clock of this process."""

    clock: Callable[[], float] = time.monotonic
    _heartbeats: dict[tuple[str, int], tuple[int, float]] = field(default_factory=dict)

    def sweep(self, publish: Publish) -> int:
        """Expire the claims of lost workers; return how many."""
        now, running, lost = self.clock(), tasks.running(), []
        for task_id, attempt, heartbeat in running:
            known = self._heartbeats.get((task_id, attempt))
            if known is None or known[0] != heartbeat:
                self._heartbeats[task_id, attempt] = (heartbeat, now)
            elif now - known[1] >= SILENCE_S and _expire(Claim(task_id, attempt), heartbeat):
                lost.append(task_id)
        alive = {(task_id, attempt) for task_id, attempt, _heartbeat in running}
        self._heartbeats = {key: known for key, known in self._heartbeats.items() if key in alive}
        publish(lost)
        return len(lost)


def _expire(claim: Claim, heartbeat: int) -> bool:
    task = tasks.get(claim.task_id)
    if task is None:
        return False
    error = TaskError("worker_lost", "the worker was lost")
    fields: dict[str, object] = {"error": error.as_dict(), "message": "retrying"}
    dead = task.attempt >= task.max_attempts
    if dead:
        fields |= {"message": error.code, "next_attempt_at": None}
    else:
        fields |= {"next_attempt_at": clock.now(), "published_at": None}
    change = Change.EXHAUSTED if dead else Change.FAILED_FOR_NOW
    expired = task_transitions.expire_claim(claim, heartbeat, change, **fields)
    if expired:
        counters.count_ended_tasks(task.kind, State.DEAD if dead else State.RETRYING)
    if expired and dead:
        counters.count_failure(error.code)
    elif expired:
        counters.count_retry(error.code)
    return expired


def retain(limit: int = 1000) -> int:
    """Delete old terminal tasks that no ledger and no ref record names; return how many."""
    before = clock.now() - timedelta(seconds=conf.task_retention_s())
    _delete_ref_records(before)
    named = ledgers.named_tasks() | refs.named_tasks()
    old = [name for name in tasks.terminal_ids(before, limit) if name not in named]
    task_transitions.delete(old)
    ledger_records.delete_unnamed_journals(limit)
    return len(old)


def _delete_ref_records(before: datetime) -> None:
    """Delete records of refs without a target and without a task in the retention time."""
    for record, task_id in refs.without_target().items():
        task = tasks.get(task_id)
        if task is None or (task.finished_at is not None and task.finished_at < before):
            ref_records.delete(record, task_id)
