"""Holding steps: leases renewed, adopted after a restart, lost (reference: control-plane 15.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from apps.agents.api import heard_of, online_agents
from apps.executions import conf
from apps.executions.domain.attempts import is_irreplaceable
from apps.executions.domain.reports import (
    ActiveJob,
    Adopted,
    KeptJob,
    Lease,
    Renewal,
    StaleAttempt,
    Supervisor,
)
from apps.executions.domain.states import JobState
from apps.executions.models import Step
from apps.executions.services import moves
from apps.executions.services.board import Board, open_boards, write_boards
from apps.executions.services.claims import release_bindings
from apps.executions.services.measuring import leases_expired
from apps.executions.services.secrets import SecretUnresolved
from apps.executions.services.settling import settle
from apps.executions.services.specs import fail_for_secrets, step_spec
from apps.executions.services.usage import UNMEASURED, figures
from apps.platform_settings.api import backends
from apps.streams.api import unit_of_work
from kernel import clock
from kernel.clock import milliseconds

_SHARED: Final = ("remote-docker", "kubernetes")  # types of backends whose units others reach too


@unit_of_work
def renew(supervisor: Supervisor, leases: Sequence[Renewal]) -> list[Lease | StaleAttempt]:
    """Prolong the leases this process still holds, by conditional updates; the others are stale."""
    heard_of(supervisor.agent_id, supervisor.incarnation)
    expires_at = clock.now() + conf.lease()
    for attempt, jobs in _by_attempt(leases).items():
        _held_by(supervisor).filter(attempt=attempt, job_id__in=jobs).update(
            lease_expires_at=expires_at
        )
    held = {step.job_id: step for step in _held_by(supervisor).filter(job_id__in=_jobs(leases))}
    grace = lease_grace(supervisor)
    answers = [_renewed(held.get(lease.job_id), lease, grace) for lease in leases]
    _store_usage(held, leases)
    return answers


def lease_grace(supervisor: Supervisor) -> timedelta:
    """How long after their end this supervisor can still renew its leases, as things are now."""
    mine = {(supervisor.agent_id, backend_id) for backend_id in supervisor.backends}
    return conf.lease_owner_patience() if _awaited(mine) == mine else conf.lease_grace()


def adopt(supervisor: Supervisor, active: Sequence[ActiveJob]) -> Adopted:
    """A supervisor has started and names the units it found; what it cannot name is lost.

    Kept jobs go on with the same attempt under the new incarnation. Of the others: an attempt
    whose container was never created is queued again; the rest follows the rules of a lost lease.
    """
    kept = _adopt(supervisor, tuple(active))
    keep = tuple(filter(None, (_kept_job(board, at) for board, at in kept)))
    kept_ids = {job.job_id for job in keep}
    return Adopted(
        keep=keep, drop=tuple(job.job_id for job in active if job.job_id not in kept_ids)
    )


@unit_of_work
def _adopt(supervisor: Supervisor, active: Sequence[ActiveJob]) -> list[tuple[Board, int]]:
    named = {(job.job_id, job.attempt) for job in active}
    boards = _boards_of(_running().filter(agent_id=supervisor.agent_id))
    kept = []
    for board, at in _held(boards, supervisor.agent_id):
        row = board.row(at)
        if (row.job_id, row.attempt) in named:
            board.change(
                at,
                incarnation=supervisor.incarnation,
                lease_expires_at=board.now + conf.lease(),
            )
            kept.append((board, at))
        elif row.unit_started_at is None:
            moves.give_back(board, at, "its supervisor restarted before the container was created")
        else:
            moves.lose(board, at, "its supervisor restarted and no longer has it")
    _settle(boards.values())
    return kept


@unit_of_work
def lose_jobs_of(agent_id: str) -> None:
    """A supervisor was removed: its running jobs are lost at once."""
    boards = _boards_of(_running().filter(agent_id=agent_id))
    for board, at in _held(boards, agent_id):
        moves.lose(board, at, f"{agent_id} was removed")
    _settle(boards.values())


def lose_expired_leases() -> int:
    """Take what nobody renewed until the grace after its end; returns how many jobs that were.

    Owners that nobody could replace are waited for: they go on with what still runs.
    """
    now = clock.now()
    late = _running().filter(lease_expires_at__lt=now - conf.lease_grace())
    rows = list(late.values_list("pk", "agent_id", "backend_id", "lease_expires_at"))
    awaited = _awaited({(agent_id, backend_id) for _, agent_id, backend_id, _ in rows})
    since = now - conf.lease_owner_patience()
    given_up = [pk for pk, *owner, end in rows if tuple(owner) not in awaited or end < since]
    lost = _lose_expired(given_up, now - conf.lease_grace()) if given_up else 0
    leases_expired(lost)
    return lost


def _awaited(owners: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of these supervisors and backends that no other supervisor could replace now."""
    asked = set(owners)
    if not asked:
        return set()
    alone = {backend.backend_id for backend in backends() if backend.type not in _SHARED}
    online = [(agent.agent_id, agent.backends) for agent in online_agents()]
    return {
        (owner, backend)
        for owner, backend in asked
        if backend in alone and is_irreplaceable(owner, backend, online=online)
    }


@unit_of_work
def _lose_expired(steps: Sequence[UUID], cutoff: datetime) -> int:
    late = _running().filter(pk__in=steps, lease_expires_at__lt=cutoff)
    boards = _boards_of(late)
    expired = _running().filter(execution_id__in=list(boards))
    # from here on a renewal comes too late: it needs a lease that is still there
    expired.filter(pk__in=steps, lease_expires_at__lt=cutoff).update(lease_expires_at=None)
    lost = list(expired.filter(lease_expires_at=None).values_list("execution_id", "index"))
    alive = {(agent.agent_id, agent.incarnation) for agent in online_agents()}
    for execution_pk, index in lost:
        _lose_one(boards[execution_pk], index - 1, alive)
    release_bindings(boards.values())
    _settle(boards.values())
    return len(lost)


def _lose_one(board: Board, at: int, alive: set[tuple[str, str]]) -> None:
    row = board.row(at)
    lives = (row.agent_id, row.incarnation) in alive
    if lives and row.unit_started_at is None and _never_renewed(row):
        # the very process lives, but never heard of its claim: the answer to it was lost
        moves.give_back(board, at, f"{row.agent_id} never began this attempt")
    else:
        moves.lose(board, at, f"{row.agent_id} was lost: it no longer renews its lease")


def _never_renewed(row: Step) -> bool:
    """Whoever heard of a claim renews it."""
    if row.started_at is None or row.lease_expires_at is None:
        return False
    return row.lease_expires_at <= row.started_at + conf.lease()


def _settle(boards: Iterable[Board]) -> None:
    written = list(boards)
    for board in written:
        settle(board)
    write_boards(written)


def _running() -> Any:
    return Step.objects.filter(job_state=JobState.RUNNING.value)


def _held_by(supervisor: Supervisor) -> Any:
    return _running().filter(
        agent_id=supervisor.agent_id,
        incarnation=supervisor.incarnation,
        lease_expires_at__isnull=False,
    )


def _boards_of(steps: Any) -> dict[UUID, Board]:
    places: dict[UUID, list[int]] = defaultdict(list)
    for execution_pk, index in steps.values_list("execution_id", "index"):
        places[execution_pk].append(index - 1)
    return open_boards(places, rows=places)


def _held(boards: dict[UUID, Board], agent_id: str) -> list[tuple[Board, int]]:
    return [
        (board, at)
        for board in boards.values()
        for at in board.open_jobs()
        if board.row(at).agent_id == agent_id
    ]


def _by_attempt(leases: Iterable[Renewal]) -> dict[int, list[str]]:
    jobs: dict[int, list[str]] = defaultdict(list)
    for lease in leases:
        jobs[lease.attempt].append(lease.job_id)
    return jobs


def _jobs(leases: Iterable[Renewal]) -> list[str]:
    return [lease.job_id for lease in leases]


def _renewed(step: Step | None, lease: Renewal, grace: timedelta) -> Lease | StaleAttempt:
    if step is None or step.attempt != lease.attempt or step.lease_expires_at is None:
        return StaleAttempt()
    return Lease(
        status=step.job_state,
        cancel_reason=step.cancel_reason,
        lease_ms=int(conf.lease().total_seconds() * 1000),
        expires_at=step.lease_expires_at,
        grace_ms=milliseconds(grace),
    )


def _store_usage(held: dict[str, Step], leases: Iterable[Renewal]) -> None:
    measured = []
    for lease in leases:
        step = held.get(lease.job_id)
        if lease.usage and step is not None and step.attempt == lease.attempt:
            for name, figure in figures(step, lease.usage).items():
                setattr(step, name, figure)
            measured.append(step)
    if measured:
        Step.objects.bulk_update(measured, list(UNMEASURED))


def _kept_job(board: Board, at: int) -> KeptJob | None:
    row = board.row(at)
    try:
        spec = step_spec(board, at, attempt=row.attempt)
    except SecretUnresolved as error:
        fail_for_secrets(board.execution.pk, error.detail)
        return None
    return KeptJob(
        job_id=row.job_id,
        attempt=row.attempt,
        next_seq=row.next_seq,
        position=row.position,
        spec=spec,
    )
