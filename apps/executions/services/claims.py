"""Handing out steps: the oldest that this supervisor can run (reference: control-plane 15.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.agents.api import is_online
from apps.executions.domain.plan import may_begin
from apps.executions.domain.reports import Supervisor
from apps.executions.domain.states import ExecutionStatus, JobState
from apps.executions.domain.topics import WORK_NUDGE
from apps.executions.models import Step
from apps.executions.services import moves
from apps.executions.services.board import Board, open_boards
from apps.executions.services.eligibility import routed_backends
from apps.executions.services.measuring import waited
from kernel import clock

_SPARE: Final = 16  # candidates read beyond those wanted: some turn out not to be for this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claimed step: enough to build its spec after the transaction."""

    board: Board
    at: int
    job_id: str
    attempt: int


def claim_steps(
    supervisor: Supervisor, boards: dict[UUID, Board], *, limit: int, looks_around: bool = True
) -> list[Claimed]:
    """Claim on the open boards and on those of other runs, which are opened and put into `boards`.

    Oldest first; what was queued just now on an open board comes last. `looks_around` False: only
    that.
    """
    backends = routed_backends(supervisor) if limit else {}
    if not backends:
        return []
    places = _candidates(supervisor, backends, limit + _SPARE) if looks_around else {}
    boards.update(open_boards({pk for pk, _ in places} - boards.keys()))
    fresh = [(pk, at) for pk, board in boards.items() for at in _just_queued(board)]
    claimed: list[Claimed] = []
    for pk, at in dict.fromkeys([*places, *fresh]):
        if len(claimed) == limit:
            break
        board = boards.get(pk)
        if board is not None and _may_claim(board, at, supervisor, backends):
            board.measure(waited(places.get((pk, at), board.now), board.now, _kind(board, at)))
            claimed.append(_claim(board, at, supervisor))
    return claimed


def claimable(backends: Iterable[str]) -> QuerySet[Step, Step]:
    """Steps that wait for a supervisor of one of these backends."""
    return Step.objects.filter(
        Q(not_before=None) | Q(not_before__lte=clock.now()),
        job_state=JobState.PENDING.value,
        backend_id__in=list(backends),
        execution__status=ExecutionStatus.BOOTING.value,
        execution__deleted_at=None,
    )


def _candidates(
    supervisor: Supervisor, backends: Iterable[str], limit: int
) -> dict[tuple[UUID, int], datetime]:
    """Run and place → since when it waits, the oldest first."""
    mine = Q(execution__bound_agent_id__in=["", supervisor.agent_id])
    steps = claimable(backends).filter(mine)
    if supervisor.capabilities:
        steps = steps.filter(kind__in=supervisor.capabilities)
    rows = steps.order_by("queued_at", "index")
    columns = ("execution_id", "index", "queued_at")
    return {(pk, index - 1): since for pk, index, since in rows.values_list(*columns)[:limit]}


def _kind(board: Board, at: int) -> str:
    return board.run.plan.nodes[at].kind


def _just_queued(board: Board) -> list[int]:
    return [at for at in board.started_now if board.job_states[at] is JobState.PENDING]


def _may_claim(board: Board, at: int, supervisor: Supervisor, backends: Mapping[str, str]) -> bool:
    execution = board.execution
    if not board.is_planning or board.job_states[at] is not JobState.PENDING:
        return False
    if backends.get(execution.backend_id) != execution.backend_kind:
        return False
    if execution.bound_agent_id not in ("", supervisor.agent_id):
        return False
    node = board.run.plan.nodes[at]
    if supervisor.capabilities and node.kind not in supervisor.capabilities:
        return False
    return may_begin(board.run.plan, board.statuses, at, set(board.not_selected))


def _claim(board: Board, at: int, supervisor: Supervisor) -> Claimed:
    moves.claim(board, at, supervisor)
    if not board.execution.bound_agent_id:
        board.change_run(bound_agent_id=supervisor.agent_id)
    return Claimed(board=board, at=at, job_id=board.keys.job_ids[at], attempt=board.attempt(at))


def release_bindings(boards: Iterable[Board]) -> None:
    """Let other supervisors go on with runs whose own one is offline."""
    for board in boards:
        bound = board.execution.bound_agent_id
        if bound and not is_online(bound):
            board.change_run(bound_agent_id="")
            board.nudge(WORK_NUDGE)
