"""Shell sessions, the side of who asks: open one, and end one.

(reference: control-plane 11.7)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from apps.accounts.api import Forbidden, Principal, Role
from apps.executions.api import (
    NotKept,
    StepUnit,
    get_execution,
    is_kept,
    keep_nudge,
    kept_run,
    step_unit,
    step_units,
)
from apps.shells import conf
from apps.shells.domain.documents import ShellDocument
from apps.shells.domain.records import input_topic, output_topic
from apps.shells.domain.states import (
    LIVE,
    EndCode,
    ShellNotFound,
    ShellRefused,
    ShellsOff,
    TooManyShells,
)
from apps.shells.models import ShellSession
from apps.shells.selectors import shell_document
from apps.shells.services.endings import SessionEnd, audit, end_abandoned, end_session
from apps.streams.api import nudge, open_topics, unit_of_work
from apps.suites.api import container_kinds
from kernel import clock, ids

SHELL_NUDGE: Final = "shells:work"
OPENED_WITHIN: Final = timedelta(seconds=30)  # by a runner, or the session ends


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellWish:
    """What to open; without a command, an interactive shell."""

    step_id: str
    command: tuple[str, ...] = ()
    columns: int = 80
    rows: int = 24


def open_shell(
    principal: Principal, run_id: str, wish: ShellWish, *, address: str
) -> ShellDocument:
    """Store a session, which the runner that has the step opens; `address` is of who asks.

    Raise ExecutionNotFound, NotFound, Forbidden, ShellsOff, ShellRefused, NotKept and
    TooManyShells.
    """
    require_access(principal, get_execution(principal, run_id).owner_id)
    unit = step_unit(principal, run_id, wish.step_id)
    agent_id = _agent_of(principal, run_id, unit)
    end_abandoned(unit.workspace_id)
    row = _store(principal, run_id, wish, unit, agent_id, address)
    audit(row, "SHELL-OPEN")
    return shell_document(row, principal)


def require_access(principal: Principal, owner_id: UUID) -> None:
    """Raise Forbidden without the role, ShellsOff if SHELL_ACCESS closes shells to the caller."""
    access = conf.access()
    if access == "off":
        raise ShellsOff("shells are switched off here (SHELL_ACCESS=off)")
    principal.require(Role.RUNNER)
    if access == "owner" and not (principal.is_admin or principal.user_id == owner_id):
        raise ShellsOff(
            "only who launched the run, or an administrator, may open a shell in it "
            "(SHELL_ACCESS=owner)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOffer:
    """What a reader of a run may enter. `is_allowed`: the role and SHELL_ACCESS let the reader."""

    is_allowed: bool
    steps: frozenset[str] = frozenset()


def shell_offer(principal: Principal, run_id: str) -> ShellOffer:
    """Return the steps of a run that the caller could enter now; raise ExecutionNotFound."""
    run = get_execution(principal, run_id)
    try:
        require_access(principal, run.owner_id)
    except (Forbidden, ShellsOff):
        return ShellOffer(is_allowed=False)
    kept, kinds = is_kept(run_id), container_kinds()
    steps = frozenset(
        unit.step_id
        for unit in step_units(principal, run_id)
        if unit.kind in kinds
        and unit.runs_here
        and (unit.is_live_service or (kept and unit.has_started))
    )
    return ShellOffer(is_allowed=True, steps=steps)


def _agent_of(principal: Principal, run_id: str, unit: StepUnit) -> str:
    """Return the supervisor that has the unit; raise ShellRefused or NotKept."""
    if unit.kind not in container_kinds():
        raise ShellRefused(
            f"{unit.step_id} is a {unit.kind} step: it has no container that could be entered"
        )
    if not unit.runs_here:
        raise ShellRefused(
            f"environments of the backend {unit.backend} are entered on the worker's host: "
            f"`docker ps --filter label=partita.run_id={run_id}` names the container, "
            "`docker exec -it CONTAINER sh` enters it"
        )
    if unit.is_live_service:
        return unit.agent_id
    try:
        kept = kept_run(principal, run_id)
    except NotKept as error:
        raise NotKept(
            f"{error.detail}; while a run is in progress, a shell opens in a running service"
        ) from None
    if not unit.has_started:
        raise ShellRefused(f"{unit.step_id} never started in this run: it left nothing")
    return kept.agent_id


@unit_of_work
def _store(
    principal: Principal,
    run_id: str,
    wish: ShellWish,
    unit: StepUnit,
    agent_id: str,
    address: str,
) -> ShellSession:
    now, pk = clock.now(), ids.new_uuid()
    open_topics([output_topic(pk), input_topic(pk)])
    row = ShellSession.objects.create(
        id=pk,
        slot=_free_slot(unit.workspace_id),
        run_id=run_id,
        workspace_id=unit.workspace_id,
        step_id=unit.step_id,
        agent_id=agent_id,
        command=list(wish.command),
        columns=wish.columns,
        rows=wish.rows,
        opened_by=principal.user_id,
        opened_by_label=principal.label[:700],
        opened_from=address[:64],
        created_at=now,
        client_seen_at=now,
        lease_expires_at=now + OPENED_WITHIN,
    )
    nudge(SHELL_NUDGE)
    nudge(keep_nudge(run_id))
    return row


def _free_slot(workspace_id: UUID) -> str:
    """Return a slot that no live session has; two that take the same one collide in the store."""
    most = conf.most_per_workspace()
    slots = [f"{workspace_id}:{number}" for number in range(most)]
    taken = ShellSession.objects.filter(slot__in=slots).values_list("slot", flat=True)
    if not (free := sorted(set(slots) - set(taken))):
        raise TooManyShells(
            f"{most} shells are open in this workspace, which is the most; end one first"
        )
    return free[0]


def end_shell(principal: Principal, run_id: str, shell_id: str) -> None:
    """End a session; no error if it has ended. Raise ShellNotFound, Forbidden.

    Its opener, and administrators of the workspace, may.
    """
    get_execution(principal, run_id)
    row = find_session(shell_id)
    if row.run_id != run_id:
        raise ShellNotFound
    if row.opened_by != principal.user_id and not principal.has_role(Role.ADMIN):
        raise Forbidden(
            "this shell belongs to someone else; an admin of the workspace can end it",
            code="role_required",
        )
    who = "" if row.opened_by == principal.user_id else f" ({principal.label})"
    end = SessionEnd(code=EndCode.ENDED_BY_USER, more=who)
    end_session(row.pk, end, states=LIVE)


def find_session(shell_id: str) -> ShellSession:
    """Return the row; raise ShellNotFound, also if this is not an id."""
    try:
        return ShellSession.objects.get(pk=UUID(shell_id))
    except (ValueError, ShellSession.DoesNotExist):
        raise ShellNotFound from None
