"""Runs whose environments are kept (reference: control-plane 11.9)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.accounts.api import Principal
from apps.executions.domain.kept_environments import KeepBody, KeptRun, NotKept
from apps.executions.domain.states import FINAL_EXECUTION, JobState
from apps.executions.models import Execution, Step
from apps.executions.selectors.runs import get_execution
from kernel.agent_protocol import Job
from kernel.clock import rfc3339

# the sweep alone ends what is over its time, so that no extension comes too late for a removal
KEPT: Final = Q(
    keep_alive_until__isnull=False,
    keep_ended_at=None,
    status__in=[str(status) for status in FINAL_EXECUTION],
)
_OPEN: Final = [str(JobState.NONE), str(JobState.PENDING), str(JobState.RUNNING)]


def kept_runs() -> QuerySet[Execution, Execution]:
    """Return the runs whose environments are kept now."""
    return Execution.objects.not_deleted().filter(KEPT)


def kept_run(principal: Principal, run_id: str) -> KeptRun:
    """Return a run whose environment is kept; raise ExecutionNotFound, NotKept."""
    row = get_execution(principal, run_id)
    until = row.keep_alive_until
    if until is None or not row.has_kept_environment or row.status not in FINAL_EXECUTION:
        raise NotKept(not_kept_text(row))
    return KeptRun(
        execution_pk=row.pk,
        run_id=row.run_id,
        workspace_id=row.workspace_id,
        owner_id=row.owner_id,
        agent_id=row.bound_agent_id,
        snapshot_id=row.snapshot_id,
        until=until,
    )


def not_kept_text(row: Execution) -> str:
    """Return why the environment of a run is not kept, and what to do."""
    if row.keep_ended_at is not None:
        by = f" by {row.keep_ended_by}" if row.keep_ended_by else ""
        return f"the environment of {row.run_id} was kept until {rfc3339(row.keep_ended_at)}{by}"
    if row.status not in FINAL_EXECUTION:
        return f"{row.run_id} has not finished: its environment is kept from its verdict on"
    if row.keep_alive_until is not None:
        return f"the environment of {row.run_id} is over its time and about to be removed"
    return (
        f"the environment of {row.run_id} was removed after the run; "
        "launch with keepAliveMs (--keep 30m) to keep one"
    )


def is_kept(run_id: str) -> bool:
    """Return whether the environment of a run is kept, for runners."""
    return kept_runs().filter(run_id=run_id).exists()


def keep_body(row: Execution) -> KeepBody | None:
    """Return how the environment of a run is kept, None for a run that asks for nothing."""
    if not row.keep_alive_ms:
        return None
    body: KeepBody = {"keepAliveMs": row.keep_alive_ms, "onlyFailed": row.keep_only_failed}
    if row.keep_alive_until is not None:
        body["until"] = rfc3339(row.keep_alive_until)
    if row.keep_ended_at is not None:
        body["endedAt"] = rfc3339(row.keep_ended_at)
    if row.keep_ended_by:
        body["endedBy"] = row.keep_ended_by
    return body


def jobs_with_kept_units(jobs: Collection[Job]) -> frozenset[Job]:
    """Return the jobs that are over and whose units stay, since their environment is kept.

    Until the verdict of the run that is each whose step is in its last attempt.
    """
    by_id = {job.job_id: job for job in jobs}
    keeping = Q(execution__finished_at=None) | Q(
        execution__keep_alive_until__isnull=False, execution__keep_ended_at=None
    )
    rows = (
        Step.objects.filter(keeping, job_id__in=list(by_id), execution__keep_alive_ms__gt=0)
        .exclude(job_state__in=_OPEN)
        .values_list("job_id", "attempt")
    )
    ended = {Job(job_id=job_id, attempt=attempt) for job_id, attempt in rows}
    return frozenset(ended & set(jobs))


def count_kept(workspace_id: UUID) -> int:
    """Return how many environments of a workspace are kept, or will be once their run has ended."""
    rows = Execution.objects.not_deleted().filter(
        workspace_id=workspace_id, keep_alive_until__isnull=False
    )
    return rows.filter(keep_ended_at=None).count()
