"""What is due although nobody said so: found in the store every 2 s, by one process at a time."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q

from apps.agents.api import OFFLINE_AFTER, seen_since
from apps.executions import conf
from apps.executions.domain.states import (
    ExecutionStatus,
    JobState,
    RunReason,
    StepReason,
    StepStatus,
)
from apps.executions.domain.topics import WORK_NUDGE
from apps.executions.models import Execution, Step, WorkLease
from apps.executions.services import moves
from apps.executions.services.board import Board, open_board, write_boards
from apps.executions.services.claims import release_bindings
from apps.executions.services.dispatch import dispatch, ensure_lease_row
from apps.executions.services.ending import remove_old_runs
from apps.executions.services.idempotency import forget_old_keys
from apps.executions.services.leases import lose_expired_leases
from apps.executions.services.measuring import gauge, ungauge
from apps.executions.services.settling import fail_run, force_end, settle
from apps.streams.api import nudge, unit_of_work
from kernel import clock, durations
from kernel.errors import PlatformError

log = logging.getLogger("partita.executions")
_LEASE: Final = "sweep"
_LEASE_FOR: Final = timedelta(seconds=10)
_UNCLAIMED_FOR: Final = timedelta(seconds=60)
_PAUSE_S: Final = 10.0  # between two looks of a process that is there
_HOLDER: Final = secrets.token_hex(8)  # this process
_TIMED: Final = [
    str(status)
    for status in (ExecutionStatus.QUEUED, ExecutionStatus.BOOTING, ExecutionStatus.CANCELING)
]


class Presence:
    """Since when this process has looked without a pause.

    After a pause (the process or its machine stood still, or has just started) everybody else may
    have been away too: whoever returns gets the time of a lease before anything counts as late.
    """

    def __init__(self) -> None:
        self._since_s = self._looked_at_s = _now_s()

    def look(self) -> None:
        now_s = _now_s()
        if now_s - self._looked_at_s > _PAUSE_S:
            self._since_s = now_s
        self._looked_at_s = now_s

    def is_long_enough(self) -> bool:
        return _now_s() - self._since_s >= conf.lease().total_seconds()


def _now_s() -> float:
    """Goes on while the machine sleeps, unlike `time.monotonic` on Linux."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def sweep(presence: Presence | None = None) -> bool:
    """Do everything that is due; False when another process holds the sweep's lease.

    Each kind of work is independent: what fails is logged and found again by the next sweep.
    `presence`: of whoever sweeps again and again; without it everybody had time enough.
    """
    if presence:
        presence.look()
    ensure_lease_row(_LEASE)
    if not _take_lease():
        ungauge()
        return False
    for work in _WORK:
        if not _may_do(work, presence):
            continue
        try:
            work()
        except PlatformError as error:
            log.warning("sweep: %s: %s", work.__name__, error.detail)
        except Exception:
            log.exception("sweep: %s", work.__name__)
    return True


def _may_do(work: Callable[[], None], presence: Presence | None) -> bool:
    if presence is None or work not in _ENDING:
        return True
    presence.look()
    return presence.is_long_enough()


@unit_of_work
def _take_lease() -> bool:
    now = clock.now()
    mine = Q(holder=_HOLDER) | Q(expires_at__lte=now)
    taken = WorkLease.objects.filter(mine, name=_LEASE).update(
        holder=_HOLDER, expires_at=now + _LEASE_FOR
    )
    return bool(taken)


@unit_of_work
def leave_sweeping() -> None:
    """Another process may sweep at once."""
    WorkLease.objects.filter(name=_LEASE, holder=_HOLDER).update(expires_at=clock.now())


def _end_overdue_runs() -> None:
    """Queue wait, run time, teardown and cancel all have a deadline (invariant 5)."""
    due = Execution.objects.filter(
        status__in=_TIMED, deadline__lte=clock.now(), deleted_at=None
    ).values_list("pk", flat=True)
    for pk in list(due):
        _end_overdue_run(pk)


@unit_of_work
def _end_overdue_run(pk: UUID) -> None:
    board = open_board(pk)
    if board is None or board.is_over or not _is_past(board.execution.deadline, board.now):
        return
    if board.execution.verdict or board.execution.status == ExecutionStatus.CANCELING:
        force_end(board)
    else:
        longest = durations.shown(conf.max_duration().total_seconds())
        fail_run(board, RunReason.RUN_TIMEOUT, f"the run took longer than {longest}")
    write_boards([board])


def _end_overdue_steps() -> None:
    """Attempts that their supervisor should have ended, but keeps renewing."""
    due = Step.objects.filter(job_state=JobState.RUNNING.value, deadline__lte=clock.now())
    for pk, index in list(due.values_list("execution_id", "index")):
        _end_overdue_step(pk, index - 1)


@unit_of_work
def _end_overdue_step(pk: UUID, at: int) -> None:
    board = open_board(pk)
    if board is None or not _is_past(board.row(at).deadline, board.now):
        return
    if board.statuses[at] is not StepStatus.RUNNING:
        return
    service = board.run.plan.nodes[at].kind == "service"
    reason = StepReason.NOT_READY if service else StepReason.TIMEOUT
    moves.fail(board, at, reason, "its supervisor did not end it in time")
    settle(board)
    write_boards([board])


def _wake_due_retries() -> None:
    waiting = Step.objects.filter(job_state=JobState.PENDING.value, not_before__isnull=False)
    if waiting.filter(not_before__lte=clock.now()).exists():
        nudge(WORK_NUDGE)


def _fail_unclaimed_steps() -> None:
    """Queued for 60 s while no supervisor of the backend was there: `agent_unavailable`."""
    since = clock.now() - _UNCLAIMED_FOR
    waiting = Step.objects.filter(
        job_state=JobState.PENDING.value,
        queued_at__lt=since,
        execution__status=ExecutionStatus.BOOTING.value,
    )
    rows = list(waiting.values_list("execution_id", "index", "backend_id"))
    abandoned = {backend for backend in {row[2] for row in rows} if not seen_since(since, backend)}
    for pk, index, backend in rows:
        if backend in abandoned:
            _fail_unclaimed_step(pk, index - 1, since)


@unit_of_work
def _fail_unclaimed_step(pk: UUID, at: int, since: datetime) -> None:
    board = open_board(pk)
    if board is None or not board.is_planning or not _is_past(board.row(at).queued_at, since):
        return
    if board.open_jobs():  # held by a supervisor whose lease decides first
        return
    if board.job_states[at] is JobState.PENDING:
        text = f"no supervisor of {board.execution.backend_label} was online for 60 s"
        moves.fail(board, at, StepReason.AGENT_UNAVAILABLE, text)
        settle(board)
        write_boards([board])


def _end_bindings() -> None:
    bound = Execution.objects.filter(
        status=ExecutionStatus.BOOTING.value,
        verdict="",
        steps__job_state=JobState.PENDING.value,
    ).exclude(bound_agent_id="")
    for pk, agent_id in set(bound.values_list("pk", "bound_agent_id")):
        if not any(agent.agent_id == agent_id for agent in seen_since(_offline_since())):
            _end_binding(pk)


@unit_of_work
def _end_binding(pk: UUID) -> None:
    board: Board | None = open_board(pk)
    if board is not None and not board.is_over and not board.open_jobs():
        release_bindings([board])
        write_boards([board])


def _offline_since() -> datetime:
    return clock.now() - OFFLINE_AFTER


def _is_past(instant: datetime | None, now: datetime) -> bool:
    return instant is not None and instant <= now


def _admit() -> None:
    dispatch()


def _remove() -> None:
    remove_old_runs()
    forget_old_keys()


def _lose() -> None:
    lose_expired_leases()


# what ends something because somebody is late
_ENDING: Final = (
    _lose,
    _end_overdue_runs,
    _end_overdue_steps,
    _fail_unclaimed_steps,
    _end_bindings,
)
_WORK: Final[tuple[Callable[[], None], ...]] = (
    *_ENDING,
    _wake_due_retries,
    _admit,
    _remove,
    gauge,
)
