"""Sessions, the side of runners: take one, say that it is open, pass bytes, and end it.

One runner holds a session under a lease. (reference: control-plane 11.7)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from apps.executions.api import is_enterable, keep_nudge
from apps.shells.domain.records import (
    TerminalSize,
    input_topic,
    output_record,
    output_topic,
    typed_by,
)
from apps.shells.domain.states import LIVE, EndCode, ShellState
from apps.shells.models import ShellSession
from apps.shells.services.endings import SessionEnd, end_session
from apps.streams.api import Batch, TopicNotOpen, append, nudge, read, trim_topic, unit_of_work
from kernel import clock

LEASE: Final = timedelta(seconds=20)
_MOST_RECORDS: Final = 64
_MOST_TAKEN: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldShell:
    """A session that this runner opens."""

    pk: UUID
    run_id: str
    step_id: str
    agent_id: str
    command: tuple[str, ...]
    size: TerminalSize


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What the store knows of a session that is still this runner's."""

    client_seen_at: datetime
    read_id: int


def take_sessions(agent_ids: Collection[str], holder: str) -> list[HeldShell]:
    """Take the sessions to open that these supervisors can, each under a lease."""
    waiting = ShellSession.objects.filter(
        state=ShellState.OPENING, agent_id__in=list(agent_ids), holder=""
    )
    rows = list(waiting.order_by("created_at")[:_MOST_TAKEN])
    return [_held_shell(row) for row in rows if _take(row.pk, holder)]


@unit_of_work
def _take(pk: UUID, holder: str) -> bool:
    free = ShellSession.objects.filter(pk=pk, state=ShellState.OPENING, holder="")
    return bool(free.update(holder=holder, lease_expires_at=clock.now() + LEASE))


def _held_shell(row: ShellSession) -> HeldShell:
    return HeldShell(
        pk=row.pk,
        run_id=row.run_id,
        step_id=row.step_id,
        agent_id=row.agent_id,
        command=tuple(row.command),
        size=TerminalSize(columns=row.columns, rows=row.rows),
    )


@unit_of_work
def mark_open(held: HeldShell, holder: str, *, notice: str) -> bool:
    """Say that the program runs; False if the session has ended meanwhile."""
    now = clock.now()
    mine = ShellSession.objects.filter(pk=held.pk, state=ShellState.OPENING, holder=holder)
    opened = mine.update(
        state=ShellState.OPEN, opened_at=now, notice=notice, lease_expires_at=now + LEASE
    )
    nudge(keep_nudge(held.run_id))
    nudge(output_topic(held.pk))
    return bool(opened)


def renew_session(pk: UUID, holder: str) -> bool:
    """Renew the lease; False if the session is not this runner's any more."""
    mine = ShellSession.objects.filter(pk=pk, state__in=LIVE, holder=holder)
    return bool(mine.update(lease_expires_at=clock.now() + LEASE))


def read_pulse(pk: UUID, holder: str) -> Pulse | None:
    """Return what there is of the client; None if the session is not this runner's any more."""
    mine = ShellSession.objects.filter(pk=pk, state__in=LIVE, holder=holder)
    row = mine.values_list("client_seen_at", "read_id").first()
    return None if row is None else Pulse(client_seen_at=row[0], read_id=row[1])


def read_input(pk: UUID, *, after: int) -> tuple[list[bytes | TerminalSize], int]:
    """Return what was typed after that number, in order, and the number of the last of it."""
    chunks = read(input_topic(pk), after=after, limit=_MOST_RECORDS)
    records = [record for chunk in chunks for record in chunk.records]
    return typed_by(records), chunks[-1].last if chunks else after


@unit_of_work
def forget_input(pk: UUID, *, upto: int) -> None:
    """Delete what was typed up to that number: the program has it, and it may hold passwords."""
    ShellSession.objects.filter(pk=pk).update(taken_id=upto)
    trim_topic(input_topic(pk), upto=upto)


def write_output(pk: UUID, data: Sequence[bytes]) -> int:
    """Append output that has passed the filter; return its last number, 0 if the session ended."""
    topic = output_topic(pk)
    batch = Batch(topic=topic, source="", records=[output_record(each) for each in data])
    try:
        return append([batch]).get(topic, 0)
    except TopicNotOpen:
        return 0


@unit_of_work
def forget_output(pk: UUID, *, upto: int) -> None:
    """Delete old output that a client has got."""
    trim_topic(output_topic(pk), upto=upto)


def end_held(pk: UUID, holder: str, end: SessionEnd) -> bool:
    """End a session of this runner; False if it was not its any more."""
    return end_session(pk, end, states=LIVE, holder=holder)


def end_earlier(agent_id: str, holder: str) -> list[UUID]:
    """End what earlier processes of this supervisor held; return these sessions."""
    earlier = ShellSession.objects.filter(state__in=LIVE, agent_id=agent_id)
    rows = list(earlier.exclude(holder__in=["", holder]))
    end = SessionEnd(code=EndCode.RUNNER_RESTARTED)
    return [row.pk for row in rows if end_session(row.pk, end, states=LIVE, holder=row.holder)]


def can_still_enter(run_id: str) -> bool:
    """Return whether the run still has the environment that a shell is in."""
    return is_enterable(run_id)
