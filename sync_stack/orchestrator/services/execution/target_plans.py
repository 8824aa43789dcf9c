"""Plan what becomes of the targets of a rule sync, all of them before the first is written.

(reference: sync-stack 4.7, 4.8, step 5)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sync_stack.core.journal import JournalRecord
from sync_stack.core.ownership import PlanRefused
from sync_stack.core.plan import Plan, PlanRequest, plan_apply
from sync_stack.core.shaping.model import Shaped
from sync_stack.orchestrator.services.execution.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTarget:
    """All that a target is planned from.

    `formats`: file → format. `logged`: the keys whose changes are logged, as the sink spells them.
    `older`: the journal of an attempt that is rolled forward.
    """

    target: Target
    request: PlanRequest
    shaped: Shaped
    formats: Mapping[str, str]
    logged: frozenset[str]
    older: tuple[JournalRecord, ...]


@dataclass(slots=True, kw_only=True)
class LoadedTargets:
    """`idle`: targets with nothing to write, each with `no_files` or `env_not_in_file`.

    `failure`: why one target, and with it those after it, was not loaded.
    """

    loaded: list[LoadedTarget] = field(default_factory=list)
    idle: list[tuple[Target, str]] = field(default_factory=list)
    failure: TargetFailed | None = None


@dataclass(slots=True, kw_only=True)
class TargetPlan:
    """A target with its plan; a conflict leads to a new request and plan, `replans_left` times.

    `journal`: what the writes replace, also those of an attempt that is rolled forward.
    `restored`: how many keys were given back.
    """

    target: Target
    shaped: Shaped
    formats: Mapping[str, str]
    logged: frozenset[str]
    request: PlanRequest
    plan: Plan
    journal: tuple[JournalRecord, ...]
    replans_left: int
    restored: int = 0


@dataclass(eq=False)
class TargetFailed(Exception):
    """An error at one target.

    `planned`: all plans of a failed write; those of the other targets where a guard stopped a dry
    run, and `stopped` is what would be done without the guard.
    """

    target: Target
    cause: Exception
    planned: Sequence[TargetPlan] = ()
    stopped: Plan | None = None


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
                logged=each.logged,
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
