"""Reads of tasks: one task, the lists that sweeps and pages ask for, and counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Q

from kernel import clock
from sync_stack.core.tasks import TERMINAL, RefUpdate, State
from sync_stack.core.tasks import outdated_tasks as outdated_by_updates
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.models import Task

_KNOWN_UPDATES: Final = 2000  # the latest ones of a ref


def get(task_id: str) -> Task | None:
    return Task.objects.filter(id=task_id).first()


def newest_try(idempotency_key: str) -> Task | None:
    return Task.objects.filter(idempotency_key=idempotency_key).order_by("-try_number").first()


def newest_tries(idempotency_keys: Collection[str]) -> dict[str, Task]:
    """Return the newest task of each key that has one."""
    rows = Task.objects.filter(idempotency_key__in=list(idempotency_keys)).order_by("try_number")
    return {row.idempotency_key: row for row in rows}


def count_waiting() -> int:
    return Task.objects.filter(state__in=[State.PENDING, State.RETRYING]).count()


def is_running(claim: Claim) -> bool:
    return Task.objects.filter(**claim.where).exists()


def still_waiting(task_ids: Sequence[str]) -> list[Task]:
    """Return those tasks that still wait, oldest first, without memory, result and progress."""
    rows = Task.objects.filter(id__in=list(task_ids), state__in=[State.PENDING, State.RETRYING])
    return list(rows.order_by("id").defer("memory", "result", "progress"))


def supersedable(coalesce_key: str, *, than: str) -> list[str]:
    """Return the ids of other waiting tasks with this key, oldest first."""
    if not coalesce_key:
        return []
    waiting = Task.objects.filter(
        coalesce_key=coalesce_key, state__in=[State.PENDING, State.RETRYING]
    ).exclude(id=than)
    return list(waiting.order_by("id").values_list("id", flat=True)[:1000])


def outdated_tasks(
    coalesce_key: str, waiting: Iterable[Task], heads: Collection[str]
) -> frozenset[str]:
    """Return the ids of tasks whose commit is no longer on the ref, as other deliveries show."""
    updates = [_ref_update(task.id, task.facets) for task in waiting]
    if not updates or not coalesce_key:
        return frozenset()
    known = Task.objects.filter(coalesce_key=coalesce_key).order_by("-id")
    rows = known.values_list("id", "facets")[:_KNOWN_UPDATES]
    return outdated_by_updates(updates, [_ref_update(*row) for row in rows], heads)


def _ref_update(task_id: str, facets: str) -> RefUpdate:
    facts = dict(line.partition(":")[::2] for line in facets.splitlines())
    return RefUpdate(task_id, facts.get("before", ""), facts.get("commit", ""))


def to_publish(now: datetime, *, fresh: datetime, again: datetime, limit: int) -> list[str]:
    """Return ids of tasks PENDING since `fresh` or due to retry, not published since `again`."""
    due = Q(state=State.PENDING, created_at__lte=fresh) | Q(
        state=State.RETRYING, next_attempt_at__lte=now
    )
    unpublished = Q(published_at__isnull=True) | Q(published_at__lte=again)
    waiting = Task.objects.filter(due & unpublished).order_by("id")
    return list(waiting.values_list("id", flat=True)[:limit])


def next_retry(*, after: datetime, until: datetime) -> datetime | None:
    """Return the time of the first retry between two moments."""
    waiting = Task.objects.filter(
        state=State.RETRYING, next_attempt_at__gt=after, next_attempt_at__lte=until
    )
    return waiting.order_by("next_attempt_at").values_list("next_attempt_at", flat=True).first()


def running() -> list[tuple[str, int, int]]:
    """Return (id, attempt, heartbeat) of each running task."""
    rows = Task.objects.filter(state=State.RUNNING).order_by("id")
    return list(rows.values_list("id", "attempt", "beat"))


def terminal_ids(before: datetime, limit: int) -> list[str]:
    rows = Task.objects.filter(finished_at__lt=before, state__in=list(TERMINAL))
    return list(rows.order_by("finished_at").values_list("id", flat=True)[:limit])


def count_by_state() -> dict[str, int]:
    live = [State.PENDING, State.RUNNING, State.RETRYING]
    rows = Task.objects.filter(state__in=live).values_list("state").annotate(Count("id"))
    return dict.fromkeys(map(str, live), 0) | dict(rows)


def oldest_pending_s() -> float:
    first = Task.objects.filter(state=State.PENDING).order_by("id").first()
    return (clock.now() - first.created_at).total_seconds() if first else 0.0


def check_store() -> None:
    """Raise the store's error if it cannot be used."""
    Task.objects.order_by("id").values_list("id", flat=True).first()
    connection.close_if_unusable_or_obsolete()


def list_tasks(
    where: Mapping[str, Any], facets: Sequence[str], *, before: str, limit: int
) -> list[Task]:
    """Return tasks, newest first; each of `facets` begins a line of the task's facets."""
    rows = Task.objects.filter(**where).order_by("-id")
    for facet in facets:
        rows = rows.filter(facets__contains=f"\n{facet}")
    if before:
        rows = rows.filter(id__lt=before)
    return list(rows[:limit])
