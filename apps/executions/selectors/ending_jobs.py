"""Jobs that are to end, or did: whom a call could tell sooner than they ask.

(reference: control-plane 15.3)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apps.executions.domain.reports import EndingJob
from apps.executions.domain.states import CUTS_SHORT, FINAL_EXECUTION, JobState
from apps.executions.models import Execution, Step
from kernel import clock

_CUT_SHORT: Final = [str(reason) for reason in CUTS_SHORT]


def ending_jobs(run_id: str) -> tuple[EndingJob, ...]:
    """Of a run that ends: those told to stop. Of one that is over: for each agent its last ones.

    The last ones are those that ended with the run, as all do that are still at work when it is
    ended by force, else the one that ended last. A run that is kept alive has none.
    """
    execution = Execution.objects.filter(run_id=run_id).first()
    if execution is None:
        return ()
    if execution.status in FINAL_EXECUTION:
        return () if _is_kept_alive(execution) else tuple(_last_jobs(execution))
    asked = Step.objects.filter(
        execution=execution, job_state=JobState.RUNNING.value, cancel_reason__in=_CUT_SHORT
    )
    rows = asked.values_list("agent_id", "job_id").order_by("index")
    return tuple(EndingJob(agent_id=agent_id, job_id=job_id) for agent_id, job_id in rows)


def _is_kept_alive(execution: Execution) -> bool:
    until = execution.keep_alive_until
    return until is not None and clock.now() < until


def _last_jobs(execution: Execution) -> Iterator[EndingJob]:
    held = Step.objects.filter(execution=execution, finished_at__isnull=False)
    rows = held.exclude(agent_id="").order_by("-finished_at", "index")
    seen: set[str] = set()
    for agent_id, job_id, finished_at in rows.values_list("agent_id", "job_id", "finished_at"):
        if agent_id not in seen or finished_at == execution.finished_at:
            yield EndingJob(agent_id=agent_id, job_id=job_id, run_is_over=True)
        seen.add(agent_id)
