"""Cancellation of runs on request."""

from __future__ import annotations

from typing import Any

from apps.accounts.api import Principal
from apps.executions.domain.runs import ExecutionFinished, ExecutionNotFound
from apps.executions.domain.states import ExecutionStatus, RunReason
from apps.executions.selectors.runs import get_execution, summary
from apps.executions.services.run_aggregate import RunAggregate, load_run, save_runs
from apps.executions.services.run_progression import cancel_run
from apps.streams.api import unit_of_work


@unit_of_work
def cancel(principal: Principal, run_id: str, reason: str = "") -> dict[str, Any]:
    """Cancel a run and return its Summary; a run that is already canceled stays as it is.

    Raise ExecutionNotFound, and ExecutionFinished for a run that is Healthy or Failed.
    """
    execution = get_execution(principal, run_id)
    run = load_run(execution.pk)
    if run is None:
        raise ExecutionNotFound
    if run.execution.status == ExecutionStatus.CANCELED:
        return summary(run.execution, now=run.now)
    if run.is_over:
        raise ExecutionFinished(f"the execution is over: {run.execution.status}")
    if not _is_ending(run):
        cancel_run(run, reason)
        save_runs([run])
    return summary(run.execution, now=run.now)


def _is_ending(run: RunAggregate) -> bool:
    """Return whether the run already stops its jobs: it is canceling, or failed as a whole."""
    execution = run.execution
    failed_as_a_whole = execution.verdict and execution.reason not in ("", RunReason.STEP_FAILED)
    return execution.status == ExecutionStatus.CANCELING or bool(failed_as_a_whole)
