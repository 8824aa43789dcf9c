"""Which steps of an ended run run again, and why; the others are `not_selected`.

Pure. A new run begins in an empty environment: whatever a step needs runs again before it, tasks
that prepared data included (reference: control-plane 11.6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from apps.executions.domain.plan import RunPlan, upstream
from apps.executions.domain.states import StepReason, StepStatus
from kernel.errors import PlatformError


class RerunScope(StrEnum):
    ALL = "all"
    FAILED = "failed"
    STEP = "step"


class RerunReason(StrEnum):
    """Why a step runs again."""

    EVERY_STEP = "all"
    FAILED = "failed"
    CANCELED = "canceled"
    NOT_RUN = "not_run"
    DEPENDS_ON = "depends_on"
    CHOSEN = "chosen"
    NEEDED_BY = "needed_by"
    ON_FAILURE = "on_failure"


class OmissionReason(StrEnum):
    """Why a step does not run again."""

    SUCCEEDED = "succeeded"
    NOT_NEEDED = "not_needed"  # it runs only after a failure that cannot happen
    NOT_SELECTED = "not_selected"  # it was not part of the run before either
    NOT_CHOSEN = "not_chosen"


_SELECTED: Final = {
    RerunReason.EVERY_STEP: "every step runs again",
    RerunReason.FAILED: "failed",
    RerunReason.CANCELED: "was canceled",
    RerunReason.NOT_RUN: "did not run",
    RerunReason.DEPENDS_ON: "depends on failed {}",
    RerunReason.CHOSEN: "chosen",
    RerunReason.NEEDED_BY: "needed by {}",
    RerunReason.ON_FAILURE: "runs if {} fails",
}
_OMITTED: Final = {
    OmissionReason.SUCCEEDED: "succeeded, and no step that runs again needs it",
    OmissionReason.NOT_NEEDED: "runs only after a failure",
    OmissionReason.NOT_SELECTED: "was not part of that run either",
    OmissionReason.NOT_CHOSEN: "not needed by the chosen step",
}
_MUST_TRIGGER: Final = (RerunReason.CHOSEN, RerunReason.NEEDED_BY)


class NothingToRerun(PlatformError):
    """No step of the run failed, was canceled or did not run."""

    code = "nothing_to_rerun"


@dataclass(frozen=True, slots=True)
class StepOutcomeFacts:
    """How a step of the run before ended; `reason` is that of a step that is not healthy."""

    status: StepStatus
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SelectedStep:
    """A step that runs again, by index; `because` is the other step that its reason names."""

    index: int
    reason: RerunReason
    because: int | None = None

    def text(self, plan: RunPlan) -> str:
        other = "" if self.because is None else plan.nodes[self.because].id
        return _SELECTED[self.reason].format(other)


@dataclass(frozen=True, slots=True)
class OmittedStep:
    index: int
    reason: OmissionReason

    @property
    def text(self) -> str:
        return _OMITTED[self.reason]


@dataclass(frozen=True, slots=True)
class Selection:
    """Every step of a run, in level order: those that run again, and the others."""

    steps: tuple[SelectedStep, ...]
    omitted: tuple[OmittedStep, ...]


def select_steps(
    plan: RunPlan,
    outcomes: Sequence[StepOutcomeFacts],
    scope: RerunScope,
    chosen: int | None = None,
) -> Selection:
    """Return which steps run again; `chosen` is the index for the scope `step`.

    Raise NothingToRerun if the scope is `failed` and every step ended well or was not needed.
    """
    paths = failure_paths(plan)
    if scope is RerunScope.ALL:
        every = [SelectedStep(index, RerunReason.EVERY_STEP) for index in plan.by_level]
        return Selection(tuple(every), ())
    if scope is RerunScope.STEP:
        if chosen is None:
            raise ValueError("the scope `step` needs the index of a step")
        first = [SelectedStep(chosen, RerunReason.CHOSEN)]
    else:
        first = unsuccessful_steps(plan, outcomes, paths)
        if not first:
            raise NothingToRerun("no step of this run failed: run all of it again, or one step")
    found = _Closure(plan, paths)
    found.add(first)
    left = [index for index in plan.by_level if index not in found.selected]
    return Selection(
        steps=tuple(found.selected[each] for each in plan.by_level if each in found.selected),
        omitted=tuple(OmittedStep(each, _omission(outcomes[each], scope)) for each in left),
    )


def failure_paths(plan: RunPlan) -> frozenset[int]:
    """Return the steps with `on_failure`, and those that need such a step."""
    found: set[int] = set()
    for index in plan.by_level:
        node = plan.nodes[index]
        if node.triggers or not found.isdisjoint(node.needs):
            found.add(index)
    return frozenset(found)


def unsuccessful_steps(
    plan: RunPlan, outcomes: Sequence[StepOutcomeFacts], paths: frozenset[int]
) -> list[SelectedStep]:
    """Return the steps that failed, were canceled or did not run, without those on failure paths.

    These follow their triggers, as they do in every run.
    """
    found = []
    for index in plan.by_level:
        outcome = outcomes[index]
        is_settled = outcome.status is StepStatus.HEALTHY or (
            outcome.status is StepStatus.SKIPPED and outcome.reason == StepReason.NOT_SELECTED
        )
        if index not in paths and not is_settled:
            found.append(_unsuccessful(plan, outcomes, index))
    return found


def _unsuccessful(plan: RunPlan, outcomes: Sequence[StepOutcomeFacts], index: int) -> SelectedStep:
    outcome = outcomes[index]
    if outcome.status is StepStatus.FAILED:
        return SelectedStep(index, RerunReason.FAILED)
    if outcome.status is StepStatus.CANCELED:
        return SelectedStep(index, RerunReason.CANCELED)
    if outcome.reason in (StepReason.DEPENDENCY_FAILED, StepReason.DEPENDENCY_SKIPPED):
        for before in upstream(plan, index):
            if outcomes[before].status is StepStatus.FAILED:
                return SelectedStep(index, RerunReason.DEPENDS_ON, before)
    return SelectedStep(index, RerunReason.NOT_RUN)


@dataclass(slots=True)
class _Closure:
    """The selected steps, with all that they need and what runs if they fail."""

    plan: RunPlan
    paths: frozenset[int]
    selected: dict[int, SelectedStep] = field(default_factory=dict)

    def add(self, steps: Iterable[SelectedStep]) -> None:
        waiting = deque(steps)
        self.selected.update({step.index: step for step in waiting})
        while True:
            while waiting:
                waiting += self._add_needs(waiting.popleft())
            waiting += self._add_handlers()
            if not waiting:
                return

    def _add_needs(self, step: SelectedStep) -> list[SelectedStep]:
        node = self.plan.nodes[step.index]
        needs = node.needs
        if step.reason in _MUST_TRIGGER:  # else one of its triggers is there
            needs += node.triggers
        return self._add_missing(
            SelectedStep(need, RerunReason.NEEDED_BY, step.index) for need in needs
        )

    def _add_handlers(self) -> list[SelectedStep]:
        """Add the steps of failure paths that a failure of a selected step can start."""
        added = []
        for index in self.plan.by_level:
            node = self.plan.nodes[index]
            if index not in self.paths or any(
                need in self.paths and need not in self.selected for need in node.needs
            ):
                continue
            triggers = [each for each in node.triggers if each in self.selected]
            if node.triggers and not triggers:
                continue
            first = triggers[0] if triggers else self._trigger_before(index)
            added += self._add_missing([SelectedStep(index, RerunReason.ON_FAILURE, first)])
        return added

    def _trigger_before(self, index: int) -> int | None:
        """Return the step whose failure starts the handler that this step needs."""
        need = next(each for each in self.plan.nodes[index].needs if each in self.paths)
        step = self.selected[need]
        return step.because if step.reason is RerunReason.ON_FAILURE else need

    def _add_missing(self, steps: Iterable[SelectedStep]) -> list[SelectedStep]:
        added = []
        for step in steps:
            if step.index not in self.selected:
                self.selected[step.index] = step
                added.append(step)
        return added


def _omission(outcome: StepOutcomeFacts, scope: RerunScope) -> OmissionReason:
    if scope is RerunScope.STEP:
        return OmissionReason.NOT_CHOSEN
    if outcome.status is StepStatus.SKIPPED:
        if outcome.reason == StepReason.NOT_SELECTED:
            return OmissionReason.NOT_SELECTED
        return OmissionReason.NOT_NEEDED
    return OmissionReason.SUCCEEDED
