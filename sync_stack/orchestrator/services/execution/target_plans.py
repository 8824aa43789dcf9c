"""Plan what becomes of the targets of a rule sync, all of them before the first is written.

(reference: sync-stack 4.7, 4.8, step 5)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sync_stack.core.journal import JournalRecord
from sync_stack.core.ownership import PlanRefused, refuse_shared
from sync_stack.core.plan import DesiredKey, Plan, PlanRequest, plan_apply, plan_dry_run
from sync_stack.core.shaping.model import Shaped
from sync_stack.orchestrator.services.execution.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetContent:
    """What the files of a target hold; nothing in a clean-up.

    `desired`: the keys as the sink spells them, and `logged` those whose changes are logged.
    `formats`: file → format.
    """

    desired: Mapping[str, DesiredKey] = field(default_factory=dict)
    shaped: Shaped = field(default_factory=lambda: Shaped(values={}, keys={}))
    formats: Mapping[str, str] = field(default_factory=dict)
    logged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTarget:
    """All that a target is planned from.

    `older`: the journal of an attempt that is rolled forward.
    """

    target: Target
    content: TargetContent
    request: PlanRequest
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
    content: TargetContent
    request: PlanRequest
    plan: Plan
    journal: tuple[JournalRecord, ...]
    replans_left: int
    restored: int = 0

    @classmethod
    def of(cls, loaded: LoadedTarget, plan: Plan) -> TargetPlan:
        return cls(
            target=loaded.target,
            content=loaded.content,
            request=loaded.request,
            plan=plan,
            journal=loaded.older,
            replans_left=loaded.request.capabilities.replans,
        )


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
        others = [
            (other.target.place.env, other.plan.put_records)
            for other in planned
            if other.target.destination.id == each.target.destination.id
        ]
        try:
            plan, guard = (
                plan_dry_run(each.request) if dry_run else (plan_apply(each.request), None)
            )
            if guard is None:
                refuse_shared(plan.put_records, others)
        except PlanRefused as refused:
            raise TargetFailed(each.target, refused) from refused
        if guard is None:
            planned.append(TargetPlan.of(each, plan))
        elif failure is None:
            failure = TargetFailed(each.target, guard, stopped=plan, planned=planned)
    if failure := found.failure or failure:
        raise failure
    return planned
