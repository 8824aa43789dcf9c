"""The sweep: one process at a time finds in the store what is due, every 2 s."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Count

from apps.agents.api import OFFLINE_AFTER, agents_seen_since, online_agents
from apps.executions import conf
from apps.executions.domain import transitions
from apps.executions.domain.events import WORK_NUDGE
from apps.executions.domain.retry_rules import StepFailure
from apps.executions.domain.states import (
    ExecutionStatus,
    JobState,
    RunReason,
    StepReason,
    StepStatus,
)
from apps.executions.models import Execution, Step
from apps.executions.services.admission import dispatch
from apps.executions.services.artifact_retention import expire_artifacts
from apps.executions.services.claims import release_bindings
from apps.executions.services.kept_environments import end_overdue, tell_owners
from apps.executions.services.launch import delete_old_idempotency_keys
from apps.executions.services.leases import expire_leases
from apps.executions.services.mock_nodes import check_waiting_mocks
from apps.executions.services.repeat_claims import cancel_unkept_repeats, end_expired_repeats
from apps.executions.services.run_aggregate import load_run, save_runs
from apps.executions.services.run_progression import fail_run, force_end, progress_run
from apps.executions.services.start_forecasts import forecast_starts
from apps.executions.services.storage import remove_old_runs
from apps.executions.services.work_leases import ensure_lease_row, release_lease, take_lease
from apps.observability.api import metrics
from apps.streams.api import StoreLoop, nudge, unit_of_work
from kernel import clock, durations
from kernel.background import report_error
from kernel.errors import PlatformError

log = logging.getLogger("partita.executions")
INTERVAL_S: Final = 2.0
_LEASE: Final = "sweep"
_LEASE_FOR: Final = timedelta(seconds=10)
_UNCLAIMED_FOR: Final = timedelta(seconds=60)
_PAUSE_S: Final = 10.0  # without a check, after which a process was absent
_TIMED: Final = [
    str(status)
    for status in (ExecutionStatus.QUEUED, ExecutionStatus.BOOTING, ExecutionStatus.CANCELING)
]

_KINDS: Final = ("local", "kubernetes", "remote-agent")
_GAUGES: Final = {
    "partita.executions.active": [str(ExecutionStatus.BOOTING), str(ExecutionStatus.CANCELING)],
    "partita.executions.queued": [str(ExecutionStatus.QUEUED)],
}
_ONLINE: Final = "partita.agents.online"
_LATE: Final = {"service": StepReason.NOT_READY, "mock": StepReason.MOCK_NOT_READY}


class ContinuousUptime:
    """How long this process has run without a pause.

    After a pause (the process or its machine stood still, or has just started) all other processes
    may have been absent too. They get the time of a lease before anything counts as late.
    """

    def __init__(self) -> None:
        self._since_s = self._checked_at_s = _now_s()

    def check(self) -> None:
        now_s = _now_s()
        if now_s - self._checked_at_s > _PAUSE_S:
            self._since_s = now_s
        self._checked_at_s = now_s

    def is_long_enough(self) -> bool:
        return _now_s() - self._since_s >= conf.lease().total_seconds()


def _now_s() -> float:
    """Return a time that advances while the machine sleeps, unlike `time.monotonic` on Linux."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def sweep(presence: ContinuousUptime | None = None) -> bool:
    """Do everything that is due; return False if another process holds the sweep lease.

    Each kind of work is independent: a failure is logged, and the next sweep tries again.
    Without `presence`, a process is assumed to have run long enough.
    """
    if presence:
        presence.check()
    ensure_lease_row(_LEASE)
    if not take_lease(_LEASE, _LEASE_FOR):
        forget_gauges()
        return False
    for work in _WORK:
        if presence:
            presence.check()  # between all of them: a busy machine's slow sweep is no pause
            if work in _ENDING and not presence.is_long_enough():
                continue
        try:
            work()
        except PlatformError as error:
            log.warning("sweep: %s: %s", work.__name__, error.detail)
            report_error()
        except Exception:
            log.exception("sweep: %s", work.__name__)
            report_error()
    return True


def _end_overdue_runs() -> None:
    """End runs after the deadline for queue wait, run time, teardown or cancel (invariant 5)."""
    due = Execution.objects.filter(
        status__in=_TIMED, deadline__lte=clock.now(), deleted_at=None
    ).values_list("pk", flat=True)
    for pk in list(due):
        _end_overdue_run(pk)


@unit_of_work
def _end_overdue_run(pk: UUID) -> None:
    run = load_run(pk)
    if run is None or run.is_over or not clock.is_past(run.execution.deadline, run.now):
        return
    if run.execution.verdict or run.execution.status == ExecutionStatus.CANCELING:
        force_end(run)
    else:
        longest = durations.format_duration(conf.max_duration().total_seconds())
        fail_run(run, RunReason.RUN_TIMEOUT, f"the run took longer than {longest}")
    save_runs([run])


def _end_overdue_steps() -> None:
    """Fail attempts that their supervisor renews but did not end in time."""
    due = Step.objects.filter(job_state=JobState.RUNNING.value, deadline__lte=clock.now())
    for pk, number in list(due.values_list("execution_id", "index")):
        _end_overdue_step(pk, number - 1)


@unit_of_work
def _end_overdue_step(pk: UUID, index: int) -> None:
    run = load_run(pk)
    if run is None or not clock.is_past(run.step(index).deadline, run.now):
        return
    if run.statuses[index] is not StepStatus.RUNNING:
        return
    reason = _LATE.get(run.plan.nodes[index].kind, StepReason.TIMEOUT)
    late = StepFailure(reason, "the step did not end in time")
    run.apply(transitions.failure(run.step_state(index), late))
    progress_run(run)
    save_runs([run])


def _wake_due_retries() -> None:
    waiting = Step.objects.filter(job_state=JobState.PENDING.value, not_before__isnull=False)
    if waiting.filter(not_before__lte=clock.now()).exists():
        nudge(WORK_NUDGE)


def _fail_unclaimed_steps() -> None:
    """Fail steps queued for 60 s without a supervisor of the backend: `agent_unavailable`."""
    since = clock.now() - _UNCLAIMED_FOR
    waiting = Step.objects.filter(
        job_state=JobState.PENDING.value,
        queued_at__lt=since,
        execution__status=ExecutionStatus.BOOTING.value,
    )
    rows = list(waiting.values_list("execution_id", "index", "backend_id"))
    abandoned = {
        backend for backend in {row[2] for row in rows} if not agents_seen_since(since, backend)
    }
    for pk, number, backend in rows:
        if backend in abandoned:
            _fail_unclaimed_step(pk, number - 1, since)


@unit_of_work
def _fail_unclaimed_step(pk: UUID, index: int, since: datetime) -> None:
    run = load_run(pk)
    if run is None or not run.is_planning or not clock.is_past(run.step(index).queued_at, since):
        return
    if run.open_jobs():  # their supervisor may return before its lease expires
        return
    if run.job_states[index] is JobState.PENDING:
        text = f"no supervisor of {run.execution.backend_label} was online for 60 s"
        failure = StepFailure(StepReason.AGENT_UNAVAILABLE, text)
        run.apply(transitions.failure(run.step_state(index), failure))
        progress_run(run)
        save_runs([run])


def _end_bindings() -> None:
    bound = Execution.objects.filter(
        status=ExecutionStatus.BOOTING.value,
        verdict="",
        steps__job_state=JobState.PENDING.value,
    ).exclude(bound_agent_id="")
    for pk, agent_id in set(bound.values_list("pk", "bound_agent_id")):
        if not any(
            agent.agent_id == agent_id for agent in agents_seen_since(clock.now() - OFFLINE_AFTER)
        ):
            _end_binding(pk)


@unit_of_work
def _end_binding(pk: UUID) -> None:
    run = load_run(pk)
    if run is not None and not run.is_over and not run.open_jobs():
        release_bindings([run])
        save_runs([run])


def set_gauges() -> None:
    """Set the gauges: active runs, queued runs, and workers that are online."""
    for name, statuses in _GAUGES.items():
        runs = Execution.objects.filter(status__in=statuses, deleted_at=None)
        counted = dict(runs.values_list("backend_kind").annotate(Count("pk")))
        for kind in _KINDS:
            metrics.set_gauge(name, counted.get(kind, 0), backend_kind=kind)
    workers = [agent for agent in online_agents() if agent.kind == "worker"]
    metrics.set_gauge(_ONLINE, len(workers))


def forget_gauges() -> None:
    """Remove the gauges from this process, because another process sets them now."""
    for name in (*_GAUGES, _ONLINE):
        metrics.forget(name)


# these end something because somebody is late
_ENDING: Final[tuple[Callable[[], object], ...]] = (
    expire_leases,
    _end_overdue_runs,
    _end_overdue_steps,
    _fail_unclaimed_steps,
    _end_bindings,
    end_expired_repeats,
)
_WORK: Final[tuple[Callable[[], object], ...]] = (
    *_ENDING,
    _wake_due_retries,
    check_waiting_mocks,
    end_overdue,
    tell_owners,
    cancel_unkept_repeats,
    dispatch,
    forecast_starts,
    remove_old_runs,
    expire_artifacts,
    delete_old_idempotency_keys,
    set_gauges,
)


class SweeperPart(StoreLoop):
    """The sweeper of a web process; of several processes that have one, one sweeps at a time."""

    def __init__(self, *, interval_s: float = INTERVAL_S) -> None:
        super().__init__("sweeper", interval_s=interval_s)
        self._presence = ContinuousUptime()

    def work(self) -> None:
        sweep(self._presence)

    def finish(self) -> None:
        """Release the lease, so that another process can sweep at once."""
        release_lease(_LEASE)

    async def drain(self) -> None:
        """Stop before the parts that export metrics and traces, because each sweep has both."""
        await self.stop()
