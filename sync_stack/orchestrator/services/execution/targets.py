"""Targets: the place and the lock of each, what is loaded of it, and its plan.

(reference: sync-stack 4.3, 4.4, 4.7)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernel import clock
from sync_stack.core.events import Event
from sync_stack.core.journal import JournalRecord
from sync_stack.core.ledger import Ledger
from sync_stack.core.plan import Plan, PlanRequest
from sync_stack.core.shaping.model import Shaped
from sync_stack.core.sink import Destination, Owner, TargetPlace
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import destination_locks, task_transitions
from sync_stack.orchestrator.services.execution.attempt import Attempt, GuardedSink, RuleSync
from sync_stack.orchestrator.services.execution.ref_state import RefState, TargetFiles
from sync_stack.orchestrator.services.execution.rule_scope import place_of, template_names
from sync_stack.repositories import TreeEntry


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

    @property
    def has_intent(self) -> bool:
        return self.ledger is not None and self.ledger.intent is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWork:
    """The targets to sync with the files of `tree`, or, without `tree`, to clean up."""

    ref_state: RefState
    targets: tuple[Target, ...]
    tree: Mapping[str, TreeEntry] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTarget:
    """All that a target is planned from.

    `formats`: file → format. `older`: the journal of an attempt that is rolled forward.
    """

    target: Target
    request: PlanRequest
    shaped: Shaped
    formats: Mapping[str, str] = field(default_factory=dict)
    older: tuple[JournalRecord, ...] = ()


@dataclass(slots=True, kw_only=True)
class TargetPlan:
    """A target with its plan; a conflict leads to a new request and plan, `replans_left` times.

    `journal`: what the writes replace, also those of an attempt that is rolled forward.
    `restored`: how many keys were given back.
    """

    target: Target
    shaped: Shaped
    formats: Mapping[str, str]
    request: PlanRequest
    plan: Plan
    journal: tuple[JournalRecord, ...]
    replans_left: int
    restored: int = 0


class TargetFailed(Exception):
    """An error at one target.

    `planned`: all plans of a failed write; those of the other targets where a guard stopped a dry
    run, and `stopped` is what would be done without the guard.
    """

    def __init__(
        self,
        target: Target,
        cause: Exception,
        *,
        planned: Sequence[TargetPlan] = (),
        stopped: Plan | None = None,
    ) -> None:
        super().__init__(str(cause))
        self.target = target
        self.cause = cause
        self.planned = planned
        self.stopped = stopped


@dataclass(slots=True, kw_only=True)
class LoadedTargets:
    """`idle`: targets with nothing to write, each with `no_files` or `env_not_in_file`.

    `failure`: why one target, and with it those after it, was not loaded.
    """

    loaded: list[LoadedTarget] = field(default_factory=list)
    idle: list[tuple[Target, str]] = field(default_factory=list)
    failure: TargetFailed | None = None


def place_target(attempt: Attempt, sync: RuleSync, files: TargetFiles, event: Event) -> Target:
    """Return the target at its destination, with its ledger. Raises SinkError."""
    rule, bundle = sync.rule, attempt.bundle
    sink = attempt.open_sink(rule.datasource)
    place = place_of(rule, event, files.env)
    destination = sink.destination(place)
    key = TargetKey(rule=rule.name, repo=event.repo, env=files.env, destination_id=destination.id)
    # rules that this build cannot serve exist as well
    disabled = {each.name for each in bundle.disabled_rules}
    known_rules = frozenset({each.name for each in bundle.rules} | disabled)
    return Target(
        files=files,
        place=place,
        destination=destination,
        sink=sink,
        ledger=ledgers.find(key) or ledgers.adoptable(key, known_rules),
        names=template_names(rule, event, files.env),
    )


def unfinished_targets(
    attempt: Attempt, sync: RuleSync, others: Sequence[Target] = ()
) -> list[Target]:
    """Return targets of the rule and ref with an intent, without `others`.

    A dry run, a heal and a purge recover none.
    """
    if sync.rule.dry_run or not attempt.follows_ref:
        return []
    handled = {(target.place.env, target.destination.id) for target in others}
    return [
        Target(
            files=TargetFiles(env=ledger.env),
            place=TargetPlace(
                rule=ledger.rule_id,
                tenant=ledger.tenant,
                datasource=ledger.datasource,
                env=ledger.env,
                repo=ledger.repo,
            ),
            destination=destination,
            sink=attempt.open_sink(ledger.datasource),
            ledger=ledger,
        )
        for ledger, destination in ledgers.with_intents(sync.rule.name, sync.event.repo)
        if (ledger.env, destination.id) not in handled
        and ledger.datasource == sync.rule.datasource
        and ledger.intent
        and ledger.intent.state.ref == sync.event.ref
    ]


class DestinationLocked(TaskError):
    """Another task writes at the destination."""

    def __init__(self, destination: str) -> None:
        super().__init__("destination_busy", "another task is writing to the destination")
        self.destination = destination


@contextmanager
def lock_destinations(attempt: Attempt, targets: Sequence[Target]) -> Iterator[Mapping[str, int]]:
    """Lock the destinations of targets in the order of their ids; yield id → generation.

    Raises DestinationLocked. Only an exception releases them early: a process that dies leaves its
    locks, and a lock whose holder no longer runs counts as free.
    """
    generations: dict[str, int] = {}
    try:
        for destination in sorted({target.destination.id for target in targets}):
            generations[destination] = _lock(attempt, destination)
        yield generations
    except Exception:
        _release(attempt, generations)
        raise
    _release(attempt, generations)


def _lock(attempt: Attempt, destination: str) -> int:
    generation = destination_locks.acquire(destination, attempt.claim).generation
    if not generation:
        raise DestinationLocked(destination)
    return generation


def _release(attempt: Attempt, destinations: Mapping[str, int]) -> None:
    for destination in destinations:
        destination_locks.release(destination, attempt.claim)
    if due := task_transitions.make_due(destinations, clock.now()):
        attempt.ports.publish(due)
