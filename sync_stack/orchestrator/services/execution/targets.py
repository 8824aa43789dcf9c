"""Targets: the files of each, its destination and its lock.

(reference: sync-stack 4.3, 4.4, 4.7)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernel import clock
from sync_stack.core.events import Event
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination, Owner, TargetPlace
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import destination_locks, task_transitions
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.claim_heartbeat import GuardedSink
from sync_stack.orchestrator.services.execution.ref_state import TargetFiles
from sync_stack.orchestrator.services.execution.rule_scope import (
    place_of,
    template_names,
)


@dataclass(slots=True, kw_only=True)
class Target:
    """A target while an attempt works on it; `ledger` is None until its first write."""

    files: TargetFiles
    place: TargetPlace
    destination: Destination
    sink: GuardedSink
    ledger: Ledger | None
    generation: int = 0
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> Owner:
        former = self.ledger.former_rules if self.ledger else frozenset()
        place = self.place
        return Owner(rule=place.rule, repo=place.repo, env=place.env, former_rules=former)


def place_target(attempt: Attempt, sync: RuleSync, files: TargetFiles, event: Event) -> Target:
    """Return the target at its destination, with its ledger. Raises SinkError."""
    rule = sync.rule
    sink = attempt.ports.open_sink(attempt.bundle.datasource(rule.datasource))
    place = place_of(rule, event, files.env)
    destination = sink.destination(place)
    key = TargetKey(rule=rule.name, repo=event.repo, env=files.env, destination_id=destination.id)
    bundle = attempt.bundle  # rules that this build cannot serve exist as well
    disabled = {each.name for each in bundle.disabled_rules}
    known_rules = frozenset({each.name for each in bundle.rules} | disabled)
    return Target(
        files=files,
        place=place,
        destination=destination,
        sink=GuardedSink(sink, attempt.heartbeat),
        ledger=ledgers.find(key) or ledgers.adoptable(key, known_rules),
        names=template_names(rule, event, files.env),
    )


class DestinationLocked(TaskError):
    """Another task writes at the destination."""

    def __init__(self, destination: str) -> None:
        super().__init__("destination_busy", "another task is writing to the destination")
        self.destination = destination


@contextmanager
def lock_destinations(attempt: Attempt, targets: Sequence[Target]) -> Iterator[None]:
    """Lock the destinations of targets in the order of their ids. Raises DestinationLocked.

    Only an exception releases them early: a process that dies leaves its locks, and a lock whose
    holder no longer runs counts as free.
    """
    locked: list[str] = []
    try:
        for destination in sorted({target.destination.id for target in targets}):
            _lock(attempt, targets, destination)
            locked.append(destination)
        yield
    except Exception:
        _release(attempt, locked)
        raise
    _release(attempt, locked)


def _lock(attempt: Attempt, targets: Sequence[Target], destination: str) -> None:
    generation = destination_locks.acquire(destination, attempt.claim).generation
    if not generation:
        raise DestinationLocked(destination)
    for target in targets:
        if target.destination.id == destination:
            target.generation = generation


def _release(attempt: Attempt, destinations: Sequence[str]) -> None:
    for destination in destinations:
        destination_locks.release(destination, attempt.claim)
    if due := task_transitions.make_due(destinations, clock.now()):
        attempt.ports.publish(due)
