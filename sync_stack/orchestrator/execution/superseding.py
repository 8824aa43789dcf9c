"""Waiting tasks whose work another one has done (reference: sync-stack 4.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from sync_stack.core.tasks import State
from sync_stack.orchestrator import counters
from sync_stack.orchestrator.execution.attempt import Attempt
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.rows import tasks


def supersede(attempt: Attempt) -> None:
    """End what waited when this task looked at its ref: it has brought the ref's head.

    Not those about what came after that head, which the host shows a moment later.
    """
    heads = set(attempt.heads.values())
    waiting = tasks.waiting(attempt.coalescing)
    outdated_tasks = tasks.outdated_tasks(attempt.task.coalesce_key, filter(_lags, waiting), heads)
    ended = [
        task
        for task in waiting
        if _is_done(task, heads, outdated_tasks) and tasks.coalesce(task, by=attempt.task.id)
    ]
    if not ended:
        return
    for kind, count in Counter(task.kind for task in ended).items():
        counters.ended(kind, State.SUCCEEDED, count)
    counters.superseded(len(ended))
    attempt.ports.copied([task.id for task in ended])


def _is_done(task: Task, heads: Collection[str], outdated_tasks: Collection[str]) -> bool:
    """What waits for a lagging host may be about a newer commit, whichever came first.

    `outdated_tasks`: those of them whose commit the ref has left.
    """
    if _goes_on_from(task, heads):
        return False
    if task.state == State.PENDING or task.error.get("code") == "destination_busy":
        return True
    return task.id in outdated_tasks


def _lags(task: Task) -> bool:
    return task.state == State.RETRYING and task.error.get("code") == "ref_lagging"


def _goes_on_from(task: Task, heads: Collection[str]) -> bool:
    events = task.request.get("events", ())
    return any(
        event.get("before") in heads and event.get("commit") not in heads for event in events
    )
