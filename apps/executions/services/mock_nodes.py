"""Mock nodes: the dispatcher asks for their surfaces, off any transaction, and records the answer.

A Celery task does it when a mock node is started. The sweep finds the nodes of lost tasks, and
those whose surfaces did not answer at once.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from apps.executions import conf
from apps.executions.domain import transitions
from apps.executions.domain.retry_rules import StepFailure
from apps.executions.domain.states import JobState, StepReason, StepStatus
from apps.executions.models import Step
from apps.executions.selectors.definitions import run_definition
from apps.executions.selectors.mock_spaces import space_of
from apps.executions.services.run_aggregate import load_run, save_runs
from apps.executions.services.run_progression import progress_run
from apps.mocks import api as mocks
from apps.streams.api import unit_of_work
from kernel import clock, durations

_TASK_WAITS_S: Final = 2.0  # for a mock; then the sweep asks again
_SWEEP_WAITS_S: Final = 0.1
_SWEEP_BUDGET_S: Final = 3.0  # for all mocks
_OF_THE_TASK: Final = timedelta(seconds=3)  # for so long, the sweep leaves a mock alone


def check_mocks(execution_pk: UUID) -> None:
    """Ask for the surfaces of the mocks of a run that are not healthy yet."""
    for step in _waiting(execution_id=execution_pk):
        _check(step, wait_s=_TASK_WAITS_S)


class _Turns:
    """Whose turn it is: those that do not answer keep no other from being asked for."""

    def __init__(self) -> None:
        self.last: UUID | None = None

    def rotate(self, steps: list[Step]) -> list[Step]:
        """Return the steps, beginning behind the last one that was asked for."""
        first = next((nth for nth, step in enumerate(steps, 1) if step.pk == self.last), 0)
        return steps[first:] + steps[:first]


_turns: Final = _Turns()


def check_waiting_mocks() -> None:
    """Ask for the surfaces of all mocks that no task has made healthy, in turn."""
    until = time.monotonic() + _SWEEP_BUDGET_S
    for step in _turns.rotate(_waiting(started_at__lte=clock.now() - _OF_THE_TASK)):
        if time.monotonic() > until:
            return
        _turns.last = step.pk
        _check(step, wait_s=_SWEEP_WAITS_S)


def _waiting(**wanted: UUID | datetime) -> list[Step]:
    steps = Step.objects.filter(kind="mock", job_state=JobState.RUNNING.value, **wanted)
    return list(steps.select_related("execution").order_by("started_at", "index"))


def _check(step: Step, *, wait_s: float) -> None:
    definition = run_definition(step.execution.snapshot_id)
    name = space_of(definition, step.execution.run_id, step.step_id)
    surfaces = list(definition.mocks[step.step_id])
    fault = mocks.wait_until_ready(conf.mock_base_url(), name, surfaces, timeout_s=wait_s)
    limit = timedelta(milliseconds=definition.nodes[step.index - 1]["timeoutMs"])
    if not fault:
        _record(step, "")
    elif step.started_at is not None and step.started_at + limit <= clock.now():
        within = durations.format_duration(limit.total_seconds())
        _record(step, f"{', '.join(surfaces)} did not answer within {within}: {fault}")


@unit_of_work
def _record(step: Step, failure: str) -> None:
    """Record that a mock is healthy or failed, unless its attempt is over."""
    run, index = load_run(step.execution_id), step.index - 1
    if run is None or not run.is_planning:
        return
    if run.statuses[index] is not StepStatus.RUNNING or run.step(index).attempt != step.attempt:
        return
    state = run.step_state(index)
    if failure:
        run.apply(transitions.failure(state, StepFailure(StepReason.MOCK_NOT_READY, failure)))
    else:
        surfaces = ", ".join(run.definition.mocks[step.step_id])
        run.apply(transitions.success(state, f"{surfaces} answers"))
    progress_run(run)
    save_runs([run])
