"""Where the unit of a step is, for those who enter it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from apps.accounts.api import Principal
from apps.executions.domain.states import FINAL_EXECUTION, StepStatus
from apps.executions.domain.steps import unknown_step_text
from apps.executions.models import Execution, Step
from apps.executions.selectors.kept_environments import is_kept
from apps.executions.selectors.runs import get_execution
from kernel.errors import NotFound

_AT_WORK: Final = (StepStatus.RUNNING, StepStatus.HEALTHY)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUnit:
    """A step as its run has it now.

    `agent_id`: the supervisor of its last attempt, empty without one. `runs_here`: the backend is
    of the runners, which sit next to the store.
    """

    workspace_id: UUID
    owner_id: UUID
    step_id: str
    kind: str
    agent_id: str
    backend: str
    has_started: bool
    is_live_service: bool
    runs_here: bool


def step_unit(principal: Principal, run_id: str, step_id: str) -> StepUnit:
    """Return what is known of the unit of a step; raise ExecutionNotFound and NotFound."""
    run = get_execution(principal, run_id)
    steps = Step.objects.filter(execution_id=run.pk)
    step = steps.filter(step_id=step_id).first()
    if step is None:
        ids = list(steps.order_by("index").values_list("step_id", flat=True))
        raise NotFound(unknown_step_text(step_id, ids=ids))
    return _unit_of(run, step)


def step_units(principal: Principal, run_id: str) -> list[StepUnit]:
    """Return the same for every step, in their order; raise ExecutionNotFound."""
    run = get_execution(principal, run_id)
    steps = Step.objects.filter(execution_id=run.pk).order_by("index")
    return [_unit_of(run, step) for step in steps]


def _unit_of(run: Execution, step: Step) -> StepUnit:
    is_over = run.status in FINAL_EXECUTION
    return StepUnit(
        workspace_id=run.workspace_id,
        owner_id=run.owner_id,
        step_id=step.step_id,
        kind=step.kind,
        agent_id=step.agent_id,
        backend=run.backend_label or run.backend_id,
        has_started=step.unit_started_at is not None,
        is_live_service=not is_over and step.kind == "service" and step.status in _AT_WORK,
        runs_here=run.backend_kind == "local",
    )


def is_enterable(run_id: str) -> bool:
    """Return whether the run still has an environment: it is not over, or it is kept."""
    status = (
        Execution.objects.not_deleted()
        .filter(run_id=run_id)
        .values_list("status", flat=True)
        .first()
    )
    return status is not None and (status not in FINAL_EXECUTION or is_kept(run_id))
