"""Canceling, deleting, and what is removed with time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from apps.accounts.api import Principal
from apps.executions import conf
from apps.executions.domain.errors import ExecutionActive, ExecutionFinished, ExecutionNotFound
from apps.executions.domain.states import FINAL_EXECUTION, ExecutionStatus, RunReason
from apps.executions.domain.topics import OVERVIEW_NUDGE, events_topic, logs_topic
from apps.executions.models import Artifact, Blob, Execution, Snapshot, Step
from apps.executions.selectors.detail import detail
from apps.executions.selectors.scope import get_execution
from apps.executions.selectors.summaries import summary
from apps.executions.services.board import Board, open_board, write_boards
from apps.executions.services.settling import cancel_run
from apps.streams.api import LostRace, delete_topics, nudge, unit_of_work
from kernel import clock

_REMOVED_AT_ONCE: Final = 20  # runs a transaction
_FINAL: Final = [str(status) for status in FINAL_EXECUTION]


@unit_of_work
def cancel(principal: Principal, run_id: str, reason: str = "") -> dict[str, Any]:
    """Ask a run to end; its Summary. Repeating changes nothing, also when it was canceled since.

    Raises ExecutionNotFound, and ExecutionFinished for a run that is Healthy or Failed.
    """
    execution = get_execution(principal, run_id)
    board = open_board(execution.pk)
    if board is None:
        raise ExecutionNotFound
    if board.execution.status == ExecutionStatus.CANCELED:
        return summary(board.execution, now=board.now)
    if board.is_over:
        raise ExecutionFinished(f"the execution is over: {board.execution.status}")
    if not _ends_anyway(board):
        cancel_run(board, reason)
        write_boards([board])
    return summary(board.execution, now=board.now)


def _ends_anyway(board: Board) -> bool:
    """Canceling, or failed as a whole already: what runs is being stopped."""
    execution = board.execution
    failed_as_a_whole = execution.verdict and execution.reason not in ("", RunReason.STEP_FAILED)
    return execution.status == ExecutionStatus.CANCELING or bool(failed_as_a_whole)


@unit_of_work
def delete(
    principal: Principal, run_id: str, *, require: Callable[[dict[str, Any]], None] | None = None
) -> None:
    """Take a finished run from every reader at once; its rows are removed in the background.

    `require` sees the run's detail as it is removed, and raises to stop that. Raises
    ExecutionNotFound, ExecutionActive.
    """
    execution = get_execution(principal, run_id)
    finished = Execution.objects.filter(pk=execution.pk, status__in=_FINAL, deleted_at=None)
    if not finished.exists():
        raise ExecutionActive("the execution is not over; cancel it first")
    if require:
        require(detail(principal, run_id))
    if not finished.filter(version=execution.version).update(deleted_at=clock.now()):
        raise LostRace
    nudge(OVERVIEW_NUDGE)


def releasable_runs(run_ids: Iterable[str]) -> list[str]:
    """Those whose containers, networks and volumes are to be removed: over, deleted or unknown."""
    asked = list(run_ids)
    needed = Execution.objects.filter(run_id__in=asked).exclude(status__in=_FINAL)
    kept = set(needed.values_list("run_id", flat=True))
    return [run_id for run_id in asked if run_id not in kept]


def remove_old_runs() -> int:
    """Remove runs that were deleted, or finished longer ago than the retention; how many."""
    expire = Execution.objects.filter(
        status__in=_FINAL, finished_at__lt=clock.now() - conf.retention(), deleted_at=None
    )
    if expire.exists():
        _mark_expired()
    removed = 0
    while batch := _removable():
        _remove(batch)
        removed += len(batch)
    return removed


@unit_of_work
def _mark_expired() -> None:
    now = clock.now()
    Execution.objects.filter(
        status__in=_FINAL, finished_at__lt=now - conf.retention(), deleted_at=None
    ).update(deleted_at=now)
    nudge(OVERVIEW_NUDGE)


def _removable() -> list[tuple[UUID, str, UUID]]:
    gone = Execution.objects.filter(deleted_at__isnull=False).order_by("deleted_at")
    return list(gone.values_list("pk", "run_id", "snapshot_id")[:_REMOVED_AT_ONCE])


@unit_of_work
def _remove(runs: Sequence[tuple[UUID, str, UUID]]) -> None:
    pks = [pk for pk, _, _ in runs]
    delete_topics([topic(run_id) for _, run_id, _ in runs for topic in (events_topic, logs_topic)])
    hashes = set(Artifact.objects.filter(execution_id__in=pks).values_list("sha256", flat=True))
    Artifact.objects.filter(execution_id__in=pks).delete()
    Step.objects.filter(execution_id__in=pks).delete()
    Execution.objects.filter(pk__in=pks).delete()
    still = Artifact.objects.filter(sha256__in=hashes).values_list("sha256", flat=True)
    Blob.objects.filter(sha256__in=hashes - set(still)).delete()
    snapshots = {snapshot_pk for _, _, snapshot_pk in runs}
    used = Execution.objects.filter(snapshot_id__in=snapshots).values_list("snapshot_id", flat=True)
    Snapshot.objects.filter(pk__in=snapshots - set(used)).delete()
