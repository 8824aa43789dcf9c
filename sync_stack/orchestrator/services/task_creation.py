"""Create tasks: they are durable before they are published (reference: sync-stack 3, 4.10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kernel import clock
from kernel.ids import new_uuid7
from sync_stack.core.events import EventKind
from sync_stack.core.tasks import State, TaskKind
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.domain.identity import branch_key
from sync_stack.orchestrator.domain.task_documents import TaskRequest
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.services import task_transitions

_RACES: Final = 10
_FAILED: Final = (State.FAILED, State.DEAD)


class TooManyTasks(Exception):
    """SYNC_MAX_PENDING tasks are waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """The contents of a new task; `max_attempts` 0: the default."""

    kind: TaskKind
    idempotency_key: str
    platform: str
    segment: str
    request: TaskRequest
    tenant: str = ""
    delivery_id: str = ""
    correlation_id: str = ""
    bundle_digest: str = ""
    traceparent: str = ""
    approved_by: str = ""
    max_attempts: int = 0


@dataclass(frozen=True, slots=True)
class Created:
    task: Task
    duplicate: bool


def create_task(new: NewTask, publish: Callable[[Sequence[str]], None]) -> Created:
    """Return the task of this key as `create_tasks` does. Raises TooManyTasks."""
    (created,) = create_tasks([new], publish)
    if created is None:
        raise TooManyTasks
    return created


def create_tasks(
    news: Sequence[NewTask], publish: Callable[[Sequence[str]], None]
) -> list[Created | None]:
    """Return the task of each key: a new one, or the newest there is unless that has failed.

    The new ones are written in one transaction, in their order; those that would be more than
    SYNC_MAX_PENDING are None. Of several callers with one key exactly one makes a row.
    """
    tried: set[str] = set()  # ids of rows: a store without transactions may have kept some
    for _ in range(_RACES):
        known = tasks.newest_tries({new.idempotency_key for new in news})
        rows = _new_rows(news, known)
        if task_transitions.add(list(rows.values())):
            fresh = {row.id for row in rows.values()} | tried
            created = [_result_of(rows, known, new.idempotency_key, fresh) for new in news]
            own = [each.task.id for each in created if each and not each.duplicate]
            if own:
                publish(own)
            return created
        tried.update(row.id for row in rows.values())
    return [None] * len(news)


def _new_rows(news: Sequence[NewTask], known: Mapping[str, Task]) -> dict[str, Task]:
    """Return a row by key for each without a task or with a failed one, up to the limit."""
    wanted: dict[str, NewTask] = {}
    for new in news:
        newest = known.get(new.idempotency_key)
        if newest is None or newest.state in _FAILED:
            wanted.setdefault(new.idempotency_key, new)
    if not wanted:
        return {}
    room = max(0, conf.max_pending() - tasks.count_waiting())
    # Ids of one millisecond are not ordered, and tasks are claimed in the order of their ids.
    ids = sorted(new_uuid7() for _ in wanted)
    return {
        key: _row(task_id, new, known.get(key))
        for task_id, (key, new) in zip(ids, islice(wanted.items(), room), strict=False)
    }


def _result_of(
    rows: Mapping[str, Task], known: Mapping[str, Task], key: str, fresh: set[str]
) -> Created | None:
    """Return the result of a key; a second delivery of a batch with one key is a duplicate too."""
    row = rows.get(key)
    if row is None:
        row = known.get(key)
        if row is None or row.state in _FAILED:
            return None
    duplicate = row.id not in fresh
    fresh.discard(row.id)
    return Created(row, duplicate=duplicate)


def _row(task_id: str, new: NewTask, before: Task | None) -> Task:
    return Task(
        id=task_id,
        kind=new.kind,
        state=State.PENDING,
        message="accepted",
        platform=new.platform,
        datasource=new.segment,
        tenant=new.tenant,
        idempotency_key=new.idempotency_key,
        try_number=before.try_number + 1 if before else 1,
        retry_of=before.id if before else "",
        delivery_id=new.delivery_id,
        correlation_id=new.correlation_id,
        bundle_digest=new.bundle_digest,
        traceparent=new.traceparent,
        approved_by=new.approved_by,
        coalesce_key=coalesce_key(new),
        facets=facets(new),
        max_attempts=new.max_attempts or conf.max_attempts(),
        created_at=clock.now(),
        request=new.request.as_json(),
    )


def coalesce_key(new: NewTask) -> str:
    """Return a key that tasks of one branch or tag and the same rules share; else an empty text.

    Empty as well for tasks that another one cannot replace: a plan, an approved prune.
    """
    if new.kind == TaskKind.HEAL or len(new.request.events) != 1 or not new.request.is_plain:
        return ""
    event = new.request.events[0]
    if event.kind is EventKind.PULL_REQUEST:
        return ""
    return branch_key(new.platform, new.segment, event.repo, event.ref, new.request.rules)


def facets(new: NewTask) -> str:
    """Return the search terms of a task, a line each; its end adds rules and environments."""
    lines = [f"rule:{rule}" for rule in new.request.rules]
    for event in new.request.events:
        lines += [f"repo:{event.repo}", f"ref:{event.ref}", f"commit:{event.commit}"]
        lines += [f"before:{event.before}"] if event.before else []
    return "\n" + "\n".join(dict.fromkeys(lines)) + "\n"
