"""Destination locks: one writer at a time, each with a higher generation than all before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db.models import QuerySet

from kernel import clock
from sync_stack.core.sink import Destination
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.models import DestinationLock
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.services import task_transitions

_RACES = 10


@dataclass(frozen=True, slots=True)
class LockResult:
    """`generation` is 0 if the running task `held_by` has the lock."""

    generation: int
    held_by: str = ""


class DestinationLocked(TaskError):
    """Another task writes at the destination."""

    def __init__(self, destination: str) -> None:
        super().__init__("destination_busy", "another task is writing to the destination")
        self.destination = destination


@contextmanager
def lock_destinations(
    destinations: Iterable[Destination], claim: Claim, publish: Callable[[Sequence[str]], None]
) -> Iterator[Mapping[str, int]]:
    """Lock destinations in the order of their ids; yield id → generation.

    Raises DestinationLocked. Only an exception releases them early: a process that dies leaves its
    locks, and a lock whose holder no longer runs counts as free.
    """
    generations: dict[str, int] = {}
    try:
        for destination_id in sorted({destination.id for destination in destinations}):
            generations[destination_id] = _lock(destination_id, claim)
        yield generations
    except Exception:
        _release_all(generations, claim, publish)
        raise
    _release_all(generations, claim, publish)


def _lock(destination_id: str, claim: Claim) -> int:
    generation = acquire(destination_id, claim).generation
    if not generation:
        raise DestinationLocked(destination_id)
    return generation


def _release_all(
    destination_ids: Iterable[str], claim: Claim, publish: Callable[[Sequence[str]], None]
) -> None:
    """Release the locks, and publish the tasks that wait for them."""
    for destination in destination_ids:
        release(destination, claim)
    if due := task_transitions.make_due(destination_ids, clock.now()):
        publish(due)


def acquire(destination_id: str, claim: Claim) -> LockResult:
    """Lock a destination in one write, at its next generation, unless its holder still runs."""
    mine = {"holder_task": claim.task_id, "holder_attempt": claim.attempt}
    for _ in range(_RACES):
        row = DestinationLock.objects.filter(id=destination_id).first()
        if row is None:
            if DestinationLock(id=destination_id, **mine).insert():
                return LockResult(1)
            continue
        holder = Claim(row.holder_task, row.holder_attempt)
        if holder.task_id and holder != claim and tasks.is_running(holder):
            return LockResult(0, holder.task_id)
        rows = _lock_of(holder, destination_id).filter(generation=row.generation)
        if rows.update(generation=row.generation + 1, **mine):
            return LockResult(row.generation + 1)
    return LockResult(0)


def release(destination_id: str, claim: Claim) -> bool:
    """Unlock a destination; its generation stays. Return False if another claim has the lock."""
    return bool(_lock_of(claim, destination_id).update(holder_task="", holder_attempt=0))


def _lock_of(claim: Claim, destination_id: str) -> QuerySet[DestinationLock]:
    return DestinationLock.objects.filter(
        id=destination_id, holder_task=claim.task_id, holder_attempt=claim.attempt
    )


def release_earlier(claim: Claim) -> list[str]:
    """Unlock what lost attempts of the same task had locked; return the destinations."""
    rows = DestinationLock.objects.filter(holder_task=claim.task_id)
    earlier = rows.exclude(holder_attempt=claim.attempt).values_list("id", "holder_attempt")
    released = list(earlier)
    for destination_id, attempt in released:
        release(destination_id, Claim(claim.task_id, attempt))
    return [destination_id for destination_id, _attempt in released]
