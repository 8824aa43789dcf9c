"""The plan of a run: who needs whom, and `decide`, which says what follows from the statuses.

Pure. Steps are named by their place in the topology, from 0 (reference: control-plane 11.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from operator import or_
from typing import Any, Final

from apps.executions.domain.states import TERMINAL_STEP, StepReason, StepStatus

_WAITING: Final = (StepStatus.PENDING, StepStatus.QUEUED)
_STARTED: Final = (StepStatus.RUNNING, StepStatus.HEALTHY)
_ALWAYS_AGAIN: Final = ("service", "log", "mock")
_NOBODY: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """One step. `needs` are its hard dependencies, `triggers` its `on_failure`, as places."""

    id: str
    kind: str = "task"
    level: int = 0
    needs: tuple[int, ...] = ()
    triggers: tuple[int, ...] = ()
    continue_on_failure: bool = False
    retries: int = 0
    may_run_again: bool = False  # unasked, in a new world: `idempotent`, and kinds that always may
    has_image: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    nodes: tuple[PlanNode, ...]
    by_level: tuple[int, ...] = field(init=False)  # whoever is needed comes first
    bits: tuple[int, ...] = field(init=False)  # of a place; the next three: sets of places
    needs_of: tuple[int, ...] = field(init=False)
    triggers_of: tuple[int, ...] = field(init=False)
    continuing: int = field(init=False)
    services: int = field(init=False)

    def __post_init__(self) -> None:
        nodes = self.nodes
        order = sorted(range(len(nodes)), key=lambda at: (nodes[at].level, nodes[at].id))
        continuing = _set_of(at for at, node in enumerate(nodes) if node.continue_on_failure)
        for name, value in {
            "by_level": tuple(order),
            "bits": tuple(1 << at for at in range(len(nodes))),
            "needs_of": tuple(_set_of(node.needs) for node in nodes),
            "triggers_of": tuple(_set_of(node.triggers) for node in nodes),
            "continuing": continuing,
            "services": _set_of(at for at, node in enumerate(nodes) if node.kind == "service"),
        }.items():
            object.__setattr__(self, name, value)  # the way into a frozen dataclass


@dataclass(frozen=True, slots=True)
class Skip:
    """`because`: the place of the dependency at fault, for the two reasons that have one."""

    reason: StepReason
    because: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What follows now. `verdict` is set once every step is terminal: True is healthy."""

    start: tuple[int, ...] = ()
    skip: Mapping[int, Skip] = field(default_factory=dict)
    cancel: tuple[int, ...] = ()
    failing: bool = False
    verdict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What follows for the others when services start anew, as places in level order.

    `started`: ran against one of them, directly or through others. `reset`: these, to run again,
    and what was queued behind one of these or was skipped, to be decided again. `stuck`: of those
    that started, what must not run twice; the run cannot go on.
    """

    started: tuple[int, ...] = ()
    reset: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()


def plan_of(topology: Sequence[Mapping[str, Any]]) -> Plan:
    """The plan of a wire topology (reference: control-plane 9), in its order."""
    places = {node["id"]: place for place, node in enumerate(topology)}
    return Plan(tuple(_planned(node, places) for node in topology))


def decide(
    plan: Plan,
    statuses: Sequence[StepStatus],
    *,
    max_parallel: int,
    again: Set[int] = _NOBODY,
    not_selected: Set[int] = _NOBODY,
) -> Decision:
    """What to start, skip, cancel or end, from the status of every step.

    `again`: queued steps between two attempts, which a failure elsewhere does not stop.
    `not_selected`: skipped steps that satisfy their dependents (a rerun of the failed ones).
    Asking again after obeying answers nothing new.
    """
    bits = _Bits.of(plan, statuses, not_selected)
    failing = bool(bits.hard)
    skip: dict[int, Skip] = {}
    cancel: list[int] = []
    for at in plan.by_level:
        if failing:
            bits.mark_failure_path(plan, at)
        if statuses[at] not in _WAITING:
            continue
        end = _dead_end(plan, bits, at)
        goes_on = at in again or bits.failure_path & plan.bits[at]
        if end is None and failing and not goes_on:
            end = Skip(StepReason.RUN_FAILED)
        if end is StepStatus.CANCELED:
            bits.end(plan, at, canceled=True)
            cancel.append(at)
        elif isinstance(end, Skip):
            bits.end(plan, at)
            skip[at] = end
    start = _startable(plan, bits, max_parallel)
    ended = not start and bits.terminal == (1 << len(statuses)) - 1
    return Decision(
        start=start,
        skip=skip,
        cancel=tuple(cancel),
        failing=failing,
        verdict=not failing if ended else None,
    )


def replacement(
    plan: Plan,
    statuses: Sequence[StepStatus],
    services: Iterable[int],
    *,
    not_selected: Set[int] = _NOBODY,
) -> Replacement:
    """Find what becomes void when `services` start anew.

    What failed or was canceled stays so: the run does not build on it.
    """
    anew = _set_of(services)
    below = _downstream(plan, anew) & ~anew
    dependents = [at for at in plan.by_level if plan.bits[at] & below]
    started = tuple(at for at in dependents if statuses[at] in _STARTED)
    behind = _downstream(plan, _set_of(started))

    def is_void(at: int) -> bool:
        if statuses[at] is StepStatus.QUEUED:
            return bool(plan.bits[at] & behind)
        skipped = statuses[at] is StepStatus.SKIPPED and at not in not_selected
        return skipped or statuses[at] in _STARTED

    return Replacement(
        started=started,
        reset=tuple(at for at in dependents if is_void(at)),
        stuck=tuple(at for at in started if not plan.nodes[at].may_run_again),
    )


def upstream(plan: Plan, place: int) -> tuple[int, ...]:
    """Return what a step depends on, directly or through others, the nearest level first."""
    below = _upstream(plan, place)
    return tuple(at for at in reversed(plan.by_level) if plan.bits[at] & below)


def may_begin(plan: Plan, statuses: Sequence[StepStatus], at: int, skipped_by: Set[int]) -> bool:
    """Whether a queued step may be claimed; `skipped_by` are the steps not selected.

    Below a step that failed, a service may be starting anew.
    """
    if not all(is_satisfied(plan, statuses, need, skipped_by) for need in plan.nodes[at].needs):
        return False
    if StepStatus.FAILED not in statuses:
        return True
    return not any(
        plan.nodes[up].kind == "service" and statuses[up] not in TERMINAL_STEP
        for up in upstream(plan, at)
    )


def is_satisfied(plan: Plan, statuses: Sequence[StepStatus], at: int, skipped_by: Set[int]) -> bool:
    """Whether dependents of `at` may go on; `skipped_by` are the steps not selected."""
    status = statuses[at]
    if status is StepStatus.FAILED:
        return plan.nodes[at].continue_on_failure
    return status is StepStatus.HEALTHY or (status is StepStatus.SKIPPED and at in skipped_by)


@dataclass(slots=True)
class _Bits:
    """Sets of places, each the bits of one number: large runs are decided fast."""

    pending: int = 0
    busy: int = 0
    terminal: int = 0
    satisfied: int = 0
    failed: int = 0
    hard: int = 0  # failed, and not to be continued
    skipped: int = 0  # without those that satisfy their dependents
    canceled: int = 0
    failure_path: int = 0

    @classmethod
    def of(cls, plan: Plan, statuses: Sequence[StepStatus], not_selected: Set[int]) -> _Bits:
        by_status = dict.fromkeys(StepStatus, 0)
        for bit, status in zip(plan.bits, statuses, strict=True):
            by_status[status] |= bit
        failed = by_status[StepStatus.FAILED]
        selected = ~sum(plan.bits[at] for at in not_selected)
        skipped = by_status[StepStatus.SKIPPED]
        healthy, canceled = by_status[StepStatus.HEALTHY], by_status[StepStatus.CANCELED]
        return cls(
            pending=by_status[StepStatus.PENDING],
            busy=by_status[StepStatus.QUEUED] | by_status[StepStatus.RUNNING],
            terminal=failed | skipped | healthy | canceled,
            satisfied=healthy | failed & plan.continuing | skipped & ~selected,
            failed=failed,
            hard=failed & ~plan.continuing,
            skipped=skipped & selected,
            canceled=canceled,
        )

    def mark_failure_path(self, plan: Plan, at: int) -> None:
        """A failed or still undecided trigger, or dependence on such a node."""
        triggers = plan.triggers_of[at]
        may_fire = triggers & (self.failed | ~self.terminal)
        if may_fire or (plan.needs_of[at] | triggers) & self.failure_path:
            self.failure_path |= plan.bits[at]

    def end(self, plan: Plan, at: int, *, canceled: bool = False) -> None:
        bit = plan.bits[at]
        self.pending &= ~bit
        self.busy &= ~bit
        self.terminal |= bit
        if canceled:
            self.canceled |= bit
        else:
            self.skipped |= bit


def _dead_end(plan: Plan, bits: _Bits, at: int) -> Skip | StepStatus | None:
    needs, triggers = plan.needs_of[at], plan.triggers_of[at]
    if needs & bits.hard:
        return Skip(StepReason.DEPENDENCY_FAILED, _first(plan, at, bits.hard))
    if needs & bits.skipped:
        return Skip(StepReason.DEPENDENCY_SKIPPED, _first(plan, at, bits.skipped))
    if needs & bits.canceled:
        return StepStatus.CANCELED
    if triggers and not triggers & (bits.failed | ~bits.terminal):
        return Skip(StepReason.TRIGGER_NOT_FAILED)
    return None


def _first(plan: Plan, at: int, among: int) -> int:
    return next(need for need in plan.nodes[at].needs if plan.bits[need] & among)


def _startable(plan: Plan, bits: _Bits, max_parallel: int) -> tuple[int, ...]:
    room = max_parallel - bits.busy.bit_count()
    if room <= 0 or not bits.pending:
        return ()
    ready = (at for at in plan.by_level if _is_ready(plan, bits, at))
    return tuple(islice(ready, room))


def _is_ready(plan: Plan, bits: _Bits, at: int) -> bool:
    if not bits.pending & plan.bits[at] or plan.needs_of[at] & ~bits.satisfied:
        return False
    if bits.failed and _upstream(plan, at) & plan.services & ~bits.terminal:
        return False  # a service that it builds on through a failed step is starting anew
    triggers = plan.triggers_of[at]
    return not triggers or (not triggers & ~bits.terminal and bool(triggers & bits.failed))


def _downstream(plan: Plan, places: int) -> int:
    """These and whatever depends on them, directly or through others."""
    for at in plan.by_level:
        if (plan.needs_of[at] | plan.triggers_of[at]) & places:
            places |= plan.bits[at]
    return places


def _upstream(plan: Plan, place: int) -> int:
    below = plan.needs_of[place] | plan.triggers_of[place]
    for at in reversed(plan.by_level):
        if plan.bits[at] & below:
            below |= plan.needs_of[at] | plan.triggers_of[at]
    return below


def _set_of(places: Iterable[int]) -> int:
    return reduce(or_, (1 << at for at in places), 0)


def _planned(node: Mapping[str, Any], places: Mapping[str, int]) -> PlanNode:
    triggers = tuple(node.get("onFailure", ()))
    needs = [need for need in node.get("after", ()) if need not in triggers]
    return PlanNode(
        id=node["id"],
        kind=node["kind"],
        level=node["level"],
        needs=tuple(places[need] for need in dict.fromkeys(needs)),
        triggers=tuple(places[trigger] for trigger in dict.fromkeys(triggers)),
        continue_on_failure=bool(node.get("continueOnFailure")),
        retries=int(node.get("retries", 0)),
        may_run_again=node["kind"] in _ALWAYS_AGAIN or bool(node.get("idempotent")),
        has_image=any(node.get(key) for key in ("image", "file", "commands")),
    )
