"""Runs: which ones a caller may see, lists of them, their Summaries, and their jobs.

(reference: control-plane 11.2)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet

from apps.accounts.api import Principal
from apps.executions.domain.agent_reports import JobToStop
from apps.executions.domain.runs import (
    ExecutionNotFound,
    RunFilter,
    RunSummary,
)
from apps.executions.domain.states import (
    CUTS_SHORT,
    FINAL_EXECUTION,
    STATES_OF,
    ExecutionStatus,
    JobState,
)
from apps.executions.domain.verdict import Cancellation, QueueTurn, RunOutcome, run_sentence
from apps.executions.models import Execution, Step
from apps.executions.selectors.definitions import run_definition
from apps.executions.selectors.run_queue import QueueOfRuns, read_run_queue, wait_words
from kernel import clock

_RUN_ID: Final = re.compile(r"^run-[0-9a-f]{12}\Z")
_ACTIVE: Final = [str(status) for status in ExecutionStatus if status not in FINAL_EXECUTION]
_CUT_SHORT: Final = [str(reason) for reason in CUTS_SHORT]
NEWEST_FIRST: Final = ("-started_at", "-id")


def uses_suite(suite_id: str) -> bool:
    """Return whether a run that is not over is of this suite, or imports it."""
    active = Execution.objects.not_deleted().filter(status__in=_ACTIVE)
    if active.filter(suite_id=suite_id).exists():
        return True
    snapshots = set(active.values_list("snapshot_id", flat=True))
    return any(suite_id in run_definition(pk).contents for pk in snapshots)


def get_execution(principal: Principal, run_id: str) -> Execution:
    """Return the run; raise ExecutionNotFound, with one text for unknown, deleted, foreign runs."""
    return find_run(Execution.objects.visible_to(principal), run_id)


def find_run(runs: QuerySet[Execution, Execution], run_id: str) -> Execution:
    """Return the run of this id; raise ExecutionNotFound, also if this is not an id of a run."""
    row = runs.filter(run_id=run_id).first() if _RUN_ID.match(run_id) else None
    if row is None:
        raise ExecutionNotFound
    return row


def matching_runs(
    principal: Principal, wanted: RunFilter, *, workspace_id: str | None = None
) -> QuerySet[Execution, Execution]:
    """Return the visible runs that match the filter, unordered."""
    return Execution.objects.visible_to(principal, workspace_id=workspace_id).matching(wanted)


def unfinished_runs(*, limit: int) -> list[RunSummary]:
    """Return the Summaries of the newest runs of all workspaces that have not ended."""
    statuses = frozenset(status.value for status in set(ExecutionStatus) - FINAL_EXECUTION)
    rows = Execution.objects.not_deleted().matching(RunFilter(statuses=statuses))
    return summaries(list(rows.order_by(*NEWEST_FIRST)[:limit]))


def suite_runs(principal: Principal, suite_id: str, *, limit: int) -> list[RunSummary]:
    """Return the Summaries of the newest runs of a suite that `principal` may see."""
    rows = matching_runs(principal, RunFilter(suite_id=suite_id))
    return summaries(list(rows.order_by(*NEWEST_FIRST)[:limit]))


def summary(row: Execution, *, now: datetime | None = None) -> RunSummary:
    """Return the Summary of one run; see `summaries`."""
    return summaries([row], now=now)[0]


def summaries(rows: Sequence[Execution], *, now: datetime | None = None) -> list[RunSummary]:
    """Return the Summaries as on the wire, in the order of `rows`.

    Needs a few queries if a run is queued, for its turn among those of all workspaces, else none.
    """
    instant = now or clock.now()
    queued = any(row.status == ExecutionStatus.QUEUED for row in rows)
    queue = read_run_queue() if queued else None
    return [_summary(row, _turn(row, queue), instant) for row in rows]


def _turn(row: Execution, queue: QueueOfRuns | None) -> QueueTurn | None:
    """Return where a queued run stands; the words name no workspace."""
    position = queue.positions.get(row.run_id) if queue else None
    if queue is None or position is None:
        return None
    return QueueTurn(position, wait_words(queue, row))


def _summary(row: Execution, turn: QueueTurn | None, now: datetime) -> RunSummary:
    took = duration(row, now)
    document: RunSummary = {
        "id": row.run_id,
        "suiteId": row.suite_id,
        "suiteTitle": row.suite_title,
        "profile": row.profile,
        "backendId": row.backend_id,
        "backend": row.backend_label,
        "backendKind": row.backend_kind,
        "trigger": row.trigger,
        "author": row.author,
        "workspaceId": str(row.workspace_id),
        "status": row.status,
        "failing": row.failing,
        "sentence": _sentence(row, turn),
        "duration": clock.mmss(took),
        "durationMs": clock.milliseconds(took),
        "startedAt": clock.rfc3339(row.started_at),
    }
    _add_origin(document, row)
    if row.reason:
        document["reason"] = row.reason
    if row.reason_detail:
        document["reasonDetail"] = row.reason_detail
    if turn:
        document["queuePosition"] = turn.position
    if row.concurrency_group:
        document["concurrency"] = {
            "group": row.concurrency_group,
            "cancelInProgress": row.cancel_in_progress,
        }
    if row.booted_at:
        document["bootedAt"] = clock.rfc3339(row.booted_at)
    if row.finished_at:
        document["finishedAt"] = clock.rfc3339(row.finished_at)
    return document


def _add_origin(document: RunSummary, row: Execution) -> None:
    """Add the CI job that launched it, and the run that it repeats."""
    if row.launched_by:
        document["launchedBy"] = row.launched_by
    if row.rerun_of:
        document["rerunOf"] = row.rerun_of
        document["attempt"] = row.attempt


def _sentence(row: Execution, turn: QueueTurn | None) -> str:
    """Return why a run is as it is; of a failed or canceled one, the sentence stored with it."""
    if row.sentence:
        return row.sentence
    outcome = RunOutcome(
        run_id=row.run_id,
        status=row.status,
        failing=row.failing,
        reason=row.reason,
        detail=row.reason_detail,
        counts=Counter(STATES_OF[code][0] for code in row.standings),
        turn=turn,
    )
    return run_sentence(outcome)


def cancellation(row: Execution) -> Cancellation | None:
    """Return who canceled a run, when and why; None unless it was canceled."""
    if row.status not in (ExecutionStatus.CANCELED, ExecutionStatus.CANCELING):
        return None
    canceled: Cancellation = {"reason": row.cancel_reason}
    if row.canceled_by:
        canceled["by"] = row.canceled_by
    if row.canceled_at:
        canceled["at"] = clock.rfc3339(row.canceled_at)
    return canceled


def duration(row: Execution, now: datetime) -> timedelta:
    """Return the time from acceptance to the end, or to now."""
    return max(row.finished_at or now, row.started_at) - row.started_at


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
