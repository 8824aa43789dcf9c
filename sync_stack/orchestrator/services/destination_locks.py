"""Destination locks: one writer at a time, each with a higher generation than all before it."""

from __future__ import annotations

from dataclasses import dataclass

from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.models import Lease
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.services.compare_and_set import insert_if_absent, update_if_unchanged

_RACES = 10


@dataclass(frozen=True, slots=True)
class LockResult:
    """`generation` 0: the holder, `held_by`, is at work."""

    generation: int
    held_by: str = ""


def take(destination_id: str, mine: Claim) -> LockResult:
    """One write: we hold it, at the next generation. A holder that no longer runs is none."""
    for _ in range(_RACES):
        row = Lease.objects.filter(id=destination_id).first()
        if row is None:
            first = Lease(id=destination_id, holder_task=mine.task_id, holder_attempt=mine.attempt)
            if insert_if_absent(first):
                return LockResult(1)
            continue
        if _is_held(row, mine):
            return LockResult(0, row.holder_task)
        if _take_over(row, mine):
            return LockResult(row.generation + 1)
    return LockResult(0)


def _is_held(row: Lease, mine: Claim) -> bool:
    holder = Claim(row.holder_task, row.holder_attempt)
    return bool(row.holder_task) and holder != mine and tasks.is_running(*_pair(holder))


def _pair(holder: Claim) -> tuple[str, int]:
    return holder.task_id, holder.attempt


def _take_over(row: Lease, mine: Claim) -> bool:
    where = {
        "id": row.id,
        "generation": row.generation,
        "holder_task": row.holder_task,
        "holder_attempt": row.holder_attempt,
    }
    return update_if_unchanged(
        Lease,
        where,
        generation=row.generation + 1,
        holder_task=mine.task_id,
        holder_attempt=mine.attempt,
    )


def release(destination_id: str, mine: Claim) -> bool:
    """Give it back; the generation stays."""
    where = {
        "id": destination_id,
        "holder_task": mine.task_id,
        "holder_attempt": mine.attempt,
    }
    return update_if_unchanged(Lease, where, holder_task="", holder_attempt=0)


def release_earlier(mine: Claim) -> list[str]:
    """Give back what earlier attempts of the task held when they were lost; the destinations."""
    rows = Lease.objects.filter(holder_task=mine.task_id).exclude(holder_attempt=mine.attempt)
    earlier = list(rows.values_list("id", "holder_attempt"))
    for destination_id, attempt in earlier:
        release(destination_id, Claim(mine.task_id, attempt))
    return [destination_id for destination_id, _attempt in earlier]


def holder(destination_id: str) -> Claim | None:
    """Who is at work there now."""
    row = Lease.objects.filter(id=destination_id).first()
    if row is None or not row.holder_task:
        return None
    claim = Claim(row.holder_task, row.holder_attempt)
    return claim if tasks.is_running(claim.task_id, claim.attempt) else None
