"""New tasks: durable before anybody is told of them (contract 3, 4.10)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kernel import clock
from kernel.ids import new_uuid7
from sync_stack.core.events import Event, EventKind
from sync_stack.core.tasks import TERMINAL, Kind, State
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.rows import tasks

_RACES: Final = 10
_FAILED: Final = (State.FAILED, State.DEAD)


class TooManyTasks(Exception):
    """SYNC_MAX_PENDING tasks wait already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """What a task is made of. `rules` empty: all of the segment; `max_attempts` 0: as set."""

    kind: Kind
    idempotency_key: str
    platform: str
    segment: str
    events: Sequence[Event] = ()
    rules: Sequence[str] = ()
    tenant: str = ""
    delivery_id: str = ""
    correlation_id: str = ""
    bundle_digest: str = ""
    traceparent: str = ""
    approved_by: str = ""
    max_attempts: int = 0
    request: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Created:
    task: Task
    duplicate: bool


def create_task(new: NewTask, publish: Callable[[Sequence[str]], None]) -> Created:
    """The task of this key: a new one, or the newest there is unless that has failed.

    Of several callers with one key exactly one makes a row. Raises TooManyTasks.
    """
    for _ in range(_RACES):
        newest = tasks.newest_try(new.idempotency_key)
        if newest is not None and newest.state not in _FAILED:
            return Created(newest, duplicate=True)
        if tasks.count_waiting() >= conf.max_pending():
            raise TooManyTasks
        row = _row(new, newest)
        if tasks.add(row):
            publish([row.id])
            return Created(row, duplicate=False)
    raise TooManyTasks


def _row(new: NewTask, before: Task | None) -> Task:
    request = {"events": [event.as_dict() for event in new.events], "rules": list(new.rules)}
    return Task(
        id=new_uuid7(),
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
        request=request | new.request,
    )


def coalesce_key(new: NewTask) -> str:
    """Equal for tasks that bring one branch or tag up to date by the same rules; else empty.

    Empty, too, for what another task's success does not stand for: a plan, an approved prune.
    """
    if new.kind == Kind.HEAL or len(new.events) != 1 or new.request:
        return ""
    event = new.events[0]
    if event.kind is EventKind.PULL_REQUEST:
        return ""
    scope = ",".join(sorted(new.rules))
    text = "\n".join((new.platform, new.segment, event.repo, event.ref, scope))
    return hashlib.sha256(text.encode()).hexdigest()


def facets(new: NewTask) -> str:
    """What tasks are found by, one line each; rules and environments join when the task ends."""
    lines = [f"rule:{rule}" for rule in new.rules]
    for event in new.events:
        lines += [f"repo:{event.repo}", f"ref:{event.ref}", f"commit:{event.commit}"]
        lines += [f"before:{event.before}"] if event.before else []
    return "\n" + "\n".join(dict.fromkeys(lines)) + "\n"


def is_terminal(task: Task) -> bool:
    return State(task.state) in TERMINAL
