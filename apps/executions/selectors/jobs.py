"""Jobs: where their steps are, and which of them must stop (reference: control-plane 15)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from uuid import UUID

from apps.executions.domain.agent_reports import JobToStop
from apps.executions.domain.bounded_cache import BoundedCache
from apps.executions.domain.states import CUTS_SHORT, FINAL_EXECUTION, JobState
from apps.executions.models import Execution, Step
from kernel import clock

JobIndex = tuple[UUID, int]  # primary key of the run, index of the step
_CUT_SHORT: Final = [str(reason) for reason in CUTS_SHORT]
_indexes: Final[BoundedCache[str, JobIndex]] = BoundedCache(20_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepKeys:
    """Primary keys and job ids of the steps of a run, by index."""

    step_pks: tuple[UUID, ...]
    job_ids: tuple[str, ...]


@lru_cache(maxsize=512)
def step_keys(execution_pk: UUID) -> StepKeys:
    rows = Step.objects.filter(execution_id=execution_pk).order_by("index")
    found = list(rows.values_list("pk", "job_id"))
    _indexes.add({job_id: (execution_pk, index) for index, (_, job_id) in enumerate(found)})
    return StepKeys(step_pks=tuple(pk for pk, _ in found), job_ids=tuple(job for _, job in found))


def indexes_of_jobs(job_ids: Iterable[str]) -> dict[str, JobIndex]:
    """Return job id → (run, index of the step) without unknown jobs; at most one query."""
    return _indexes.get_many(job_ids, _read_indexes)


def _read_indexes(job_ids: set[str]) -> dict[str, JobIndex]:
    rows = Step.objects.filter(job_id__in=job_ids).values_list("job_id", "execution_id", "index")
    return {job_id: (execution_pk, number - 1) for job_id, execution_pk, number in rows}


def is_job(job_id: str) -> bool:
    """Return whether a step has, or had, this job."""
    return Step.objects.filter(job_id=job_id).exists()


def jobs_to_stop(run_id: str) -> tuple[JobToStop, ...]:
    """Return the jobs of a run that a control plane can ask to stop before they poll.

    While the run ends: the jobs with a request to stop. After it: for each agent its last jobs,
    which are those that ended with the run (all that a forced end interrupts), else the one that
    ended last. A run that is kept alive has none.
    """
    execution = Execution.objects.filter(run_id=run_id).first()
    if execution is None:
        return ()
    if execution.status in FINAL_EXECUTION:
        until = execution.keep_alive_until
        kept_alive = until is not None and clock.now() < until
        return () if kept_alive else tuple(_last_jobs(execution))
    asked = Step.objects.filter(
        execution=execution, job_state=JobState.RUNNING.value, cancel_reason__in=_CUT_SHORT
    )
    rows = asked.values_list("agent_id", "job_id").order_by("index")
    return tuple(JobToStop(agent_id=agent_id, job_id=job_id) for agent_id, job_id in rows)


def _last_jobs(execution: Execution) -> Iterator[JobToStop]:
    held = Step.objects.filter(execution=execution, finished_at__isnull=False)
    rows = held.exclude(agent_id="").order_by("-finished_at", "index")
    seen: set[str] = set()
    for agent_id, job_id, finished_at in rows.values_list("agent_id", "job_id", "finished_at"):
        if agent_id not in seen or finished_at == execution.finished_at:
            yield JobToStop(agent_id=agent_id, job_id=job_id, run_is_over=True)
        seen.add(agent_id)
