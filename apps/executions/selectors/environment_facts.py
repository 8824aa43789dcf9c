"""What the inventory of environments needs of runs and steps (reference: control-plane 17)."""

from __future__ import annotations

from collections.abc import Collection

from apps.executions.domain.runs import RunFacts
from apps.executions.domain.states import FINAL_EXECUTION, ExecutionStatus, StepStatus
from apps.executions.models import Execution, Step
from kernel.agent_protocol import StepUsage

_AT_WORK = [str(StepStatus.RUNNING), str(StepStatus.HEALTHY)]
_COLUMNS = (
    "run_id",
    "workspace_id",
    "suite_title",
    "profile",
    "backend_id",
    "bound_agent_id",
    "status",
    "started_at",
    "finished_at",
    "keep_alive_until",
)


def run_facts(run_ids: Collection[str]) -> dict[str, RunFacts]:
    """Return the facts of the runs that the store has and that are not deleted, by run id."""
    if not run_ids:
        return {}
    rows = Execution.objects.not_deleted().filter(run_id__in=list(run_ids)).only(*_COLUMNS)
    return {
        row.run_id: RunFacts(
            run_id=row.run_id,
            workspace_id=str(row.workspace_id),
            suite_title=row.suite_title,
            profile=row.profile,
            backend_id=row.backend_id,
            agent_id=row.bound_agent_id,
            status=row.status,
            is_over=row.status in FINAL_EXECUTION,
            is_canceling=row.status == ExecutionStatus.CANCELING,
            started_at=row.started_at,
            finished_at=row.finished_at,
            keep_alive_until=row.keep_alive_until,
        )
        for row in rows
    }


def usage_by_job(run_ids: Collection[str]) -> dict[str, StepUsage]:
    """Return what the steps at work of these runs used last, by the id of their job."""
    if not run_ids:
        return {}
    runs = list(
        Execution.objects.not_deleted()
        .filter(run_id__in=list(run_ids))
        .values_list("pk", flat=True)
    )
    steps = Step.objects.filter(execution_id__in=runs, status__in=_AT_WORK)
    rows = steps.values_list("job_id", "cpu_percent", "memory_bytes", "memory_peak_bytes")
    return {
        job_id: StepUsage(cpu_percent=cpu, memory_bytes=memory, memory_peak_bytes=peak)
        for job_id, cpu, memory, peak in rows
        if cpu is not None or memory is not None
    }
