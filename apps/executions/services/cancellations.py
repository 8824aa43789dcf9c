"""Cancellations: by a person, with an environment that is removed, after a restored store.

(reference: control-plane 11.1, 11.3)
"""

from __future__ import annotations

from uuid import UUID

from apps.accounts.api import Principal, Role
from apps.executions.domain.runs import ExecutionFinished, ExecutionNotFound, RunSummary
from apps.executions.domain.states import ExecutionStatus, RunReason
from apps.executions.models import Execution
from apps.executions.selectors.runs import get_execution, summary
from apps.executions.services.kept_environments import end_keeping
from apps.executions.services.run_aggregate import RunAggregate, load_run, save_runs
from apps.executions.services.run_progression import cancel_run
from apps.streams.api import unit_of_work


@unit_of_work
def cancel(principal: Principal, run_id: str, reason: str = "") -> RunSummary:
    """Cancel a run and return its Summary; a run that is already canceled stays as it is.

    Of an ended run, end the environment that is kept. Raise ExecutionNotFound, and
    ExecutionFinished for a run that is Healthy or Failed and keeps none.
    """
    execution = get_execution(principal, run_id)
    principal.require(Role.RUNNER)
    run = load_run(execution.pk)
    if run is None:
        raise ExecutionNotFound
    if run.execution.status == ExecutionStatus.CANCELED:
        return summary(run.execution, now=run.now)
    if end_keeping(run, by=principal.label):
        save_runs([run])
        return summary(run.execution, now=run.now)
    if run.is_over:
        raise ExecutionFinished(f"the execution has already finished: {run.execution.status}")
    if not _is_ending(run):
        cancel_run(run, reason, by=principal.label)
        save_runs([run])
    return summary(run.execution, now=run.now)


@unit_of_work
def cancel_run_of_environment(run_id: str, *, by: str) -> bool:
    """Cancel a run whose environment is removed, or end what is kept of it.

    Return whether its steps still have to end.

    `by` is who asked for the removal, as people read it; the caller has checked that they may.
    """
    pk = Execution.objects.filter(run_id=run_id).values_list("pk", flat=True).first()
    run = load_run(pk) if pk else None
    if run is None:
        return False
    if run.is_over:
        if end_keeping(run, by=by):
            save_runs([run])
        return False
    if not _is_ending(run):
        cancel_run(run, "its environment is removed", by=by)
        save_runs([run])
    return not run.is_over


def cancel_unfinished_runs(reason: str) -> int:
    """Cancel every run that has not ended and return how many; for a store that came back older.

    Their steps may have ended long ago, or run on: their supervisors stop them when they report.
    """
    open_runs = Execution.objects.filter(finished_at=None).values_list("pk", flat=True)
    return sum(_cancel_unfinished(pk, reason) for pk in list(open_runs))


@unit_of_work
def _cancel_unfinished(pk: UUID, reason: str) -> bool:
    run = load_run(pk)
    if run is None or run.is_over or _is_ending(run):
        return False
    cancel_run(run, reason, by="partita store restore")
    save_runs([run])
    return True


def _is_ending(run: RunAggregate) -> bool:
    """Return whether the run already stops its jobs: it is canceling, or failed as a whole."""
    execution = run.execution
    failed_as_a_whole = execution.verdict and execution.reason not in ("", RunReason.STEP_FAILED)
    return execution.status == ExecutionStatus.CANCELING or bool(failed_as_a_whole)
