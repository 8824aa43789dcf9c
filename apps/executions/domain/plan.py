"""The plan of a run: the dependencies of its steps, and `decide`, which acts on their statuses.

Pure. A step is identified by its index in the topology, from 0 (reference: control-plane 11.5).
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
_UNDER_WAY: Final = (StepStatus.QUEUED, StepStatus.RUNNING)
_MAY_START_AHEAD: Final = ("task", "test")
_ALWAYS_AGAIN: Final = ("service", "log", "mock")
_NONE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """One step. `needs` are its hard dependencies, `triggers` its `on_failure`, as indexes."""

    id: str
    kind: str = "task"
    level: int = 0
    needs: tuple[int, ...] = ()
    triggers: tuple[int, ...] = ()
    continue_on_failure: bool = False
    retries: int = 0
    may_run_again: bool = False  # against a replaced service: `idempotent`, and some kinds
    has_image: bool = True


@dataclass(frozen=True, slots=True)
class RunPlan:
    nodes: tuple[PlanNode, ...]
    by_level: tuple[int, ...] = field(init=False)  # dependencies first
    bits: tuple[int, ...] = field(init=False)  # of an index; the next four are sets of indexes
    needs_of: tuple[int, ...] = field(init=False)
    triggers_of: tuple[int, ...] = field(init=False)
    continuing: int = field(init=False)
    services: int = field(init=False)

    def __post_init__(self) -> None:
        nodes = self.nodes
        order = sorted(range(len(nodes)), key=lambda index: (nodes[index].level, nodes[index].id))
        continuing = _set_of(index for index, node in enumerate(nodes) if node.continue_on_failure)
        for name, value in {
            "by_level": tuple(order),
            "bits": tuple(1 << index for index in range(len(nodes))),
            "needs_of": tuple(_set_of(node.needs) for node in nodes),
            "triggers_of": tuple(_set_of(node.triggers) for node in nodes),
            "continuing": continuing,
            "services": _set_of(
                index for index, node in enumerate(nodes) if node.kind == "service"
            ),
        }.items():
            object.__setattr__(self, name, value)  # the way into a frozen dataclass


@dataclass(frozen=True, slots=True)
class Skip:
    """Why a step is skipped; `because` is the index of the dependency at fault, if there is one."""

    reason: StepReason
    because: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The next changes of a run; `verdict` is set once every step is terminal, True if healthy."""

    start: tuple[int, ...] = ()
    skip: Mapping[int, Skip] = field(default_factory=dict)
    cancel: tuple[int, ...] = ()
    failing: bool = False
    verdict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The effect of replaced services on other steps, as indexes in level order.

    `started`: steps that ran against one of them, directly or through others. `reset`: these steps,
    and steps behind them that were queued or skipped and are decided again. `stuck`: started steps
    that must not run twice, so that the run cannot continue.
    """

    started: tuple[int, ...] = ()
    reset: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()


def plan_of(topology: Sequence[Mapping[str, Any]]) -> RunPlan:
    """Return the plan of a wire topology (reference: control-plane 9), in its order."""
    indexes = {node["id"]: index for index, node in enumerate(topology)}
    return RunPlan(tuple(_plan_node(node, indexes) for node in topology))


def decide(
    plan: RunPlan,
    statuses: Sequence[StepStatus],
    *,
    max_parallel: int,
    again: Set[int] = _NONE,
    not_selected: Set[int] = _NONE,
) -> Decision:
    """Return the steps to start, skip or cancel, from the status of every step.

    `again`: queued steps between two attempts, which a failure elsewhere does not stop.
    `not_selected`: skipped steps that satisfy their dependents (a rerun of failed steps).
    Once a decision is applied, the next one is empty.
    """
    bits = _Bits.of(plan, statuses, not_selected)
    failing = bool(bits.hard)
    skip: dict[int, Skip] = {}
    cancel: list[int] = []
    for index in plan.by_level:
        if failing:
            bits.mark_failure_path(plan, index)
        if statuses[index] not in _WAITING:
            continue
        end = _dead_end(plan, bits, index)
        goes_on = index in again or bits.failure_path & plan.bits[index]
        if end is None and failing and not goes_on:
            end = Skip(StepReason.RUN_FAILED)
        if end is StepStatus.CANCELED:
            bits.end(plan, index, canceled=True)
            cancel.append(index)
        elif isinstance(end, Skip):
            bits.end(plan, index)
            skip[index] = end
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
    plan: RunPlan,
    statuses: Sequence[StepStatus],
    services: Iterable[int],
    *,
    not_selected: Set[int] = _NONE,
) -> Replacement:
    """Return the effect of replaced `services` on the steps that depend on them.

    Failed and canceled steps stay so, because nothing builds on them.
    """
    anew = _set_of(services)
    below = _downstream(plan, anew) & ~anew
    dependents = [index for index in plan.by_level if plan.bits[index] & below]
    started = tuple(index for index in dependents if statuses[index] in _STARTED)
    behind = _downstream(plan, _set_of(started))

    def is_void(index: int) -> bool:
        if statuses[index] is StepStatus.QUEUED:
            return bool(plan.bits[index] & behind)
        skipped = statuses[index] is StepStatus.SKIPPED and index not in not_selected
        return skipped or statuses[index] in _STARTED

    return Replacement(
        started=started,
        reset=tuple(index for index in dependents if is_void(index)),
        stuck=tuple(index for index in started if not plan.nodes[index].may_run_again),
    )


def upstream(plan: RunPlan, index: int) -> tuple[int, ...]:
    """Return what a step depends on, directly or through others, the nearest level first."""
    below = _upstream(plan, index)
    return tuple(index for index in reversed(plan.by_level) if plan.bits[index] & below)


def may_begin(
    plan: RunPlan, statuses: Sequence[StepStatus], index: int, skipped_by: Set[int]
) -> bool:
    """Return whether a queued step may be claimed; `skipped_by` are the steps not selected.

    Below a step that failed, it waits for services that start again.
    """
    if not all(is_satisfied(plan, statuses, need, skipped_by) for need in plan.nodes[index].needs):
        return False
    if StepStatus.FAILED not in statuses:
        return True
    return not any(
        plan.nodes[up].kind == "service" and statuses[up] not in TERMINAL_STEP
        for up in upstream(plan, index)
    )


def steps_ahead(
    plan: RunPlan, statuses: Sequence[StepStatus], *, count: int, skipped_by: Set[int] = _NONE
) -> tuple[int, ...]:
    """Return up to `count` pending tasks and tests that come next if no other step fails.

    Everything that they depend on is satisfied, under way, or among them. None once a step has
    failed, and none with a trigger, because these are skipped as a rule.
    """
    ahead: list[int] = []
    failed = (StepStatus.FAILED, StepStatus.CANCELED)
    nodes = zip(plan.nodes, statuses, strict=True)
    if any(status in failed and not node.continue_on_failure for node, status in nodes):
        return ()
    for index in plan.by_level:
        node = plan.nodes[index]
        if len(ahead) == count:
            break
        if statuses[index] is not StepStatus.PENDING or node.kind not in _MAY_START_AHEAD:
            continue
        if not node.triggers and all(
            need in ahead
            or statuses[need] in _UNDER_WAY
            or is_satisfied(plan, statuses, need, skipped_by)
            for need in node.needs
        ):
            ahead.append(index)
    return tuple(ahead)


def is_satisfied(
    plan: RunPlan, statuses: Sequence[StepStatus], index: int, skipped_by: Set[int]
) -> bool:
    """Return whether dependents of `index` may run; `skipped_by` are the steps not selected."""
    status = statuses[index]
    if status is StepStatus.FAILED:
        return plan.nodes[index].continue_on_failure
    return status is StepStatus.HEALTHY or (status is StepStatus.SKIPPED and index in skipped_by)


@dataclass(slots=True)
class _Bits:
    """Sets of steps as bits of integers, so that large runs are decided fast."""

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
    def of(cls, plan: RunPlan, statuses: Sequence[StepStatus], not_selected: Set[int]) -> _Bits:
        by_status = dict.fromkeys(StepStatus, 0)
        for bit, status in zip(plan.bits, statuses, strict=True):
            by_status[status] |= bit
        failed = by_status[StepStatus.FAILED]
        selected = ~sum(plan.bits[index] for index in not_selected)
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

    def mark_failure_path(self, plan: RunPlan, index: int) -> None:
        """Add a step with a trigger that failed or is undecided, or that depends on such a step."""
        triggers = plan.triggers_of[index]
        may_fire = triggers & (self.failed | ~self.terminal)
        if may_fire or (plan.needs_of[index] | triggers) & self.failure_path:
            self.failure_path |= plan.bits[index]

    def end(self, plan: RunPlan, index: int, *, canceled: bool = False) -> None:
        bit = plan.bits[index]
        self.pending &= ~bit
        self.busy &= ~bit
        self.terminal |= bit
        if canceled:
            self.canceled |= bit
        else:
            self.skipped |= bit


def _dead_end(plan: RunPlan, bits: _Bits, index: int) -> Skip | StepStatus | None:
    needs, triggers = plan.needs_of[index], plan.triggers_of[index]
    if needs & bits.hard:
        return Skip(StepReason.DEPENDENCY_FAILED, _first(plan, index, bits.hard))
    if needs & bits.skipped:
        return Skip(StepReason.DEPENDENCY_SKIPPED, _first(plan, index, bits.skipped))
    if needs & bits.canceled:
        return StepStatus.CANCELED
    if triggers and not triggers & (bits.failed | ~bits.terminal):
        return Skip(StepReason.TRIGGER_NOT_FAILED)
    return None


def _first(plan: RunPlan, index: int, among: int) -> int:
    return next(need for need in plan.nodes[index].needs if plan.bits[need] & among)


def _startable(plan: RunPlan, bits: _Bits, max_parallel: int) -> tuple[int, ...]:
    room = max_parallel - bits.busy.bit_count()
    if room <= 0 or not bits.pending:
        return ()
    ready = (index for index in plan.by_level if _is_ready(plan, bits, index))
    return tuple(islice(ready, room))


def _is_ready(plan: RunPlan, bits: _Bits, index: int) -> bool:
    if not bits.pending & plan.bits[index] or plan.needs_of[index] & ~bits.satisfied:
        return False
    if bits.failed and _upstream(plan, index) & plan.services & ~bits.terminal:
        return False  # a service behind a failed step starts again
    triggers = plan.triggers_of[index]
    return not triggers or (not triggers & ~bits.terminal and bool(triggers & bits.failed))


def _downstream(plan: RunPlan, indexes: int) -> int:
    """Return these steps and those that depend on them, directly or through others."""
    for index in plan.by_level:
        if (plan.needs_of[index] | plan.triggers_of[index]) & indexes:
            indexes |= plan.bits[index]
    return indexes


def _upstream(plan: RunPlan, index: int) -> int:
    below = plan.needs_of[index] | plan.triggers_of[index]
    for other in reversed(plan.by_level):
        if plan.bits[other] & below:
            below |= plan.needs_of[other] | plan.triggers_of[other]
    return below


def _set_of(indexes: Iterable[int]) -> int:
    return reduce(or_, (1 << index for index in indexes), 0)


def _plan_node(node: Mapping[str, Any], indexes: Mapping[str, int]) -> PlanNode:
    triggers = tuple(node.get("onFailure", ()))
    needs = [need for need in node.get("after", ()) if need not in triggers]
    return PlanNode(
        id=node["id"],
        kind=node["kind"],
        level=node["level"],
        needs=tuple(indexes[need] for need in dict.fromkeys(needs)),
        triggers=tuple(indexes[trigger] for trigger in dict.fromkeys(triggers)),
        continue_on_failure=bool(node.get("continueOnFailure")),
        retries=int(node.get("retries", 0)),
        may_run_again=node["kind"] in _ALWAYS_AGAIN or bool(node.get("idempotent")),
        has_image=any(node.get(key) for key in ("image", "file", "commands")),
    )
