"""Admission: which queued runs begin, and how they boot."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import F

from apps.executions import conf
from apps.executions.domain.queue_order import Waiting, admission_order
from apps.executions.domain.states import FINAL_EXECUTION, ExecutionStatus, RunReason
from apps.executions.models import Execution, WorkLease
from apps.executions.selectors.plans import run_plan
from apps.executions.selectors.summaries import last_boots
from apps.executions.services.board import Board, open_boards, write_boards
from apps.executions.services.secrets import SecretUnresolved, resolve_secrets
from apps.executions.services.settling import boot, fail_run
from apps.platform_settings.api import backends
from apps.streams.api import unit_of_work
from kernel import clock

_ADMISSION = "admission"
_ACTIVE = [
    str(status)
    for status in ExecutionStatus
    if status not in FINAL_EXECUTION and status is not ExecutionStatus.QUEUED
]


def dispatch() -> int:
    """Admit queued runs while there is room, round-robin over workspaces; how many began or failed.

    A run whose secrets do not resolve, or whose backend is gone, fails instead
    (reference: control-plane 11.3).
    """
    waiting = _next_in_line()
    if not waiting:
        return 0
    # secrets are read before the transaction: a provider may take seconds
    problems = {pk: _problem(pk) for pk in waiting}
    return _admit(problems)


def ensure_lease_row(name: str) -> None:
    """Make the row once; whoever comes second finds it."""
    if not WorkLease.objects.filter(name=name).exists():
        _make_lease_row(name)


@unit_of_work
def _make_lease_row(name: str) -> None:
    WorkLease.objects.get_or_create(name=name, defaults={"expires_at": clock.now()})


def _next_in_line() -> list[UUID]:
    queued = Execution.objects.filter(status=ExecutionStatus.QUEUED.value, deleted_at=None)
    rows = queued.values_list("pk", "run_id", "workspace_id", "started_at")
    keys = {run_id: pk for pk, run_id, _, _ in rows}
    if not keys:
        return []
    waiting = [
        Waiting(run_id=run_id, workspace_id=workspace_id, accepted_at=accepted_at)
        for _, run_id, workspace_id, accepted_at in rows
    ]
    order = admission_order(waiting, last_boot=last_boots({run.workspace_id for run in waiting}))
    room = conf.max_active() - Execution.objects.filter(status__in=_ACTIVE).count()
    return [keys[run_id] for run_id in order[: max(0, room)]]


@unit_of_work
def _admit(problems: dict[UUID, tuple[RunReason, str] | None]) -> int:
    ensure_lease_row(_ADMISSION)
    # one admission at a time, or two would both take the last free place
    WorkLease.objects.filter(name=_ADMISSION).update(version=F("version") + 1)
    admitted: Sequence[UUID] = [pk for pk in _next_in_line() if pk in problems]
    boards = open_boards(admitted)
    begun = [boards[pk] for pk in admitted if pk in boards and _is_queued(boards[pk])]
    for board in begun:
        if problem := problems[board.execution.pk]:
            fail_run(board, *problem)
        else:
            boot(board)
    write_boards(begun)
    return len(begun)


def _is_queued(board: Board) -> bool:
    return board.execution.status == ExecutionStatus.QUEUED and not board.execution.verdict


def _problem(execution_pk: UUID) -> tuple[RunReason, str] | None:
    execution = Execution.objects.filter(pk=execution_pk).first()
    if execution is None:
        return None
    if all(backend.backend_id != execution.backend_id for backend in backends()):
        return (
            RunReason.BACKEND_UNAVAILABLE,
            f"backend {execution.backend_id!r} is gone or disabled since the launch",
        )
    try:
        resolve_secrets(run_plan(execution.snapshot_id).profile["secretRefs"])
    except SecretUnresolved as error:
        return RunReason.SECRET_UNRESOLVED, error.detail
    return None
