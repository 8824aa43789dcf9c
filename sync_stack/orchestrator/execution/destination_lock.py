"""Holding destinations while a part is worked on (reference: sync-stack 4.8, step 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kernel import clock
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.execution.attempt import Attempt
from sync_stack.orchestrator.execution.units import Unit
from sync_stack.orchestrator.rows import destination_locks, tasks


class DestinationLocked(TaskError):
    """Another task is at work at the destination."""

    def __init__(self, destination: str) -> None:
        super().__init__("destination_busy", "another task is at work at the destination")
        self.destination = destination


@contextmanager
def held(attempt: Attempt, units: Sequence[Unit]) -> Iterator[None]:
    """Hold the units' destinations, taken in order of their ids. Raises DestinationLocked.

    A process that dies gives nothing back: a holder that no longer runs is none.
    """
    taken: list[str] = []
    try:
        for destination in sorted({unit.destination.id for unit in units}):
            _take(attempt, units, destination)
            taken.append(destination)
        yield
    except Exception:
        _give_back(attempt, taken)
        raise
    _give_back(attempt, taken)


def _take(attempt: Attempt, units: Sequence[Unit], destination: str) -> None:
    found = destination_locks.take(destination, attempt.mine)
    if not found.generation:
        raise DestinationLocked(destination)
    for unit in units:
        if unit.destination.id == destination:
            unit.generation = found.generation


def _give_back(attempt: Attempt, taken: Sequence[str]) -> None:
    for destination in taken:
        destination_locks.release(destination, attempt.mine)
    if due := tasks.make_due(taken, clock.now()):
        attempt.ports.publish(due)
