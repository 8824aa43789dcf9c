"""The plans of all targets of a rule sync, from what was loaded (reference: sync-stack 4.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sync_stack.core.ownership import PlanRefused
from sync_stack.core.plan import plan_apply
from sync_stack.orchestrator.services.execution.targets import (
    LoadedTargets,
    TargetFailed,
    TargetPlan,
)


def plan_targets(found: LoadedTargets, *, dry_run: bool) -> list[TargetPlan]:
    """Return the plan of each target. Raises TargetFailed, also for one that was not loaded.

    A guard stops a dry run only after the other targets are planned.
    """
    planned: list[TargetPlan] = []
    failure: TargetFailed | None = None
    for each in found.loaded:
        try:
            plan = TargetPlan(
                target=each.target,
                shaped=each.shaped,
                formats=each.formats,
                request=each.request,
                plan=plan_apply(each.request),
                journal=each.older,
                replans_left=each.request.capabilities.replans,
            )
            _refuse_shared(plan, planned)
        except PlanRefused as refused:
            if refused.code != "prune_guard" or not dry_run:
                raise TargetFailed(each.target, refused) from refused
            stopped = plan_apply(replace(each.request, limits_waived=True))
            failure = failure or TargetFailed(
                each.target, refused, stopped=stopped, planned=planned
            )
        else:
            planned.append(plan)
    if failure := found.failure or failure:
        raise failure
    return planned


def _refuse_shared(found: TargetPlan, others: Sequence[TargetPlan]) -> None:
    """Raise PlanRefused if another target of the rule sync writes one of these records."""
    records = {put.record for put in found.plan.puts}
    for other in others:
        if other.target.destination.id != found.target.destination.id:
            continue
        if shared := records & {put.record for put in other.plan.puts}:
            detail = f"{min(shared)!r} also belongs to environment {other.target.place.env!r}"
            raise PlanRefused("ownership_conflict", detail, shared)
