"""The rules, sentence by sentence, until nothing changes (reference: control-plane 11.5)."""

from __future__ import annotations

from apps.executions.domain.plan import Decision, RunPlan, Skip
from apps.executions.domain.states import StepReason, StepStatus

P, Q, R = StepStatus.PENDING, StepStatus.QUEUED, StepStatus.RUNNING
H, F = StepStatus.HEALTHY, StepStatus.FAILED
S, C = StepStatus.SKIPPED, StepStatus.CANCELED
TERMINAL = {H, F, S, C}


def expected_decision(
    plan: RunPlan, statuses: list[StepStatus], max_parallel: int, again: set[int]
) -> Decision:
    now = list(statuses)
    failing = any(hard(plan, now, at) for at in range(len(now)))
    skip: dict[int, Skip] = {}
    cancel: list[int] = []
    for level in sorted({node.level for node in plan.nodes}):
        for at in places_of(plan, level):
            if now[at] not in (P, Q):
                continue
            fate = fate_of(plan, now, at, failing=failing and at not in again)
            if fate == C:
                now[at] = C
                cancel.append(at)
            elif isinstance(fate, Skip):
                now[at] = S
                skip[at] = fate
    room = max_parallel - sum(status in (Q, R) for status in now)
    ready = [at for at in in_order(plan) if is_ready(plan, now, at)]
    start = tuple(ready[: max(0, room)])
    over = not start and all(status in TERMINAL for status in now)
    return Decision(
        start=start,
        skip=skip,
        cancel=tuple(cancel),
        failing=failing,
        verdict=(not failing) if over else None,
    )


def in_order(plan: RunPlan) -> list[int]:
    return sorted(range(len(plan.nodes)), key=lambda at: (plan.nodes[at].level, plan.nodes[at].id))


def places_of(plan: RunPlan, level: int) -> list[int]:
    return [at for at in in_order(plan) if plan.nodes[at].level == level]


def hard(plan: RunPlan, now: list[StepStatus], at: int) -> bool:
    return now[at] == F and not plan.nodes[at].continue_on_failure


def satisfied(plan: RunPlan, now: list[StepStatus], at: int) -> bool:
    return now[at] == H or (now[at] == F and plan.nodes[at].continue_on_failure)


def fate_of(  # noqa: PLR0911 - one sentence of the rules after another
    plan: RunPlan, now: list[StepStatus], at: int, *, failing: bool
) -> Skip | StepStatus | None:
    node = plan.nodes[at]
    for need in node.needs:
        if hard(plan, now, need):
            return Skip(StepReason.DEPENDENCY_FAILED, need)
    for need in node.needs:
        if now[need] == S:
            return Skip(StepReason.DEPENDENCY_SKIPPED, need)
    if any(now[need] == C for need in node.needs):
        return C
    ended = [now[trigger] for trigger in node.triggers]
    if ended and set(ended) <= TERMINAL - {F}:
        return Skip(StepReason.TRIGGER_NOT_FAILED)
    if failing and not on_failure_path(plan, now, at):
        return Skip(StepReason.RUN_FAILED)
    return None


def on_failure_path(plan: RunPlan, now: list[StepStatus], at: int) -> bool:
    node = plan.nodes[at]
    undecided_or_failed = [t for t in node.triggers if now[t] == F or now[t] not in TERMINAL]
    return bool(undecided_or_failed) or any(
        on_failure_path(plan, now, need) for need in (*node.needs, *node.triggers)
    )


def is_ready(plan: RunPlan, now: list[StepStatus], at: int) -> bool:
    node = plan.nodes[at]
    if now[at] != P or not all(satisfied(plan, now, need) for need in node.needs):
        return False
    if F in now and any(
        plan.nodes[up].kind == "service" and now[up] not in TERMINAL for up in below(plan, at)
    ):
        return False
    ended = [now[trigger] for trigger in node.triggers]
    return not ended or (set(ended) <= TERMINAL and F in ended)


def below(plan: RunPlan, at: int) -> set[int]:
    edges = {*plan.nodes[at].needs, *plan.nodes[at].triggers}
    return edges.union(*(below(plan, edge) for edge in edges))
