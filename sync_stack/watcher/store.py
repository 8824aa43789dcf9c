"""What the watcher reads and writes in the primary store; every call is one thread's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import close_old_connections
from django.db.models import QuerySet

from kernel import clock
from kernel.ids import new_uuid7
from sync_stack.core.drift import Comparison, Episode, TargetStatus, changes_listed
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.models import Drift, Leader, Lease, LedgerUnit, WatchState
from sync_stack.orchestrator.rows import ledgers, tasks
from sync_stack.orchestrator.rows.compare_and_set import changed, found, inserted

KEPT: Final = timedelta(days=90)
MAX_CHANGES: Final = 200
_LEADER: Final = "watcher"
_OPEN: Final = (Episode.OPEN.value, Episode.HEALING.value, Episode.UNHEALED.value)


@contextmanager
def store_thread() -> Iterator[None]:
    """Around calls on a thread of a pool: connections that have gone stale are left behind."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A unit as stored, with what tells whether somebody has been at it since."""

    ledger: Ledger
    destination: Destination
    status: str
    lease: tuple[int, str, int]
    busy: bool = False
    busy_task: str = ""

    @property
    def token(self) -> tuple[Any, ...]:
        return (self.ledger.version, self.lease)


def units(datasource: str) -> list[LedgerUnit]:
    """Without their contents."""
    rows = LedgerUnit.objects.filter(datasource=datasource).defer("content")
    return list(rows.order_by("id"))


def snapshot(unit_id: str) -> Snapshot | None:
    row = found(LedgerUnit, id=unit_id)
    if row is None:
        return None
    ledger = ledgers.ledger_of(row)
    lease = found(Lease, id=row.destination_id)
    holder = _working(ledger, lease)
    return Snapshot(
        ledger=ledger,
        destination=ledgers.destination_of(row),
        status=row.status,
        lease=_lease_token(lease),
        busy=bool(holder),
        busy_task=holder,
    )


def _lease_token(lease: Lease | None) -> tuple[int, str, int]:
    return (lease.generation, lease.holder_task, lease.holder_attempt) if lease else (0, "", 0)


def _working(ledger: Ledger, lease: Lease | None) -> str:
    """The task that writes at the destination, or that will come back to its intent."""
    if lease and lease.holder_task and tasks.is_running(lease.holder_task, lease.holder_attempt):
        return lease.holder_task
    if ledger.intent is None:
        return ""
    task = tasks.get(ledger.intent.state.task_id)
    return task.id if task is not None and task.finished_at is None else ""


def is_unchanged(seen: Snapshot) -> bool:
    """Whether nobody took the destination or wrote the ledger since."""
    version = LedgerUnit.objects.filter(id=seen.ledger.unit_id).values_list("version", flat=True)
    lease = found(Lease, id=seen.ledger.destination_id)
    return (version.first(), _lease_token(lease)) == seen.token


def write_status(unit_id: str, before: str, status: TargetStatus) -> None:
    """With its time, when it is another one."""
    if before != status:
        changed(LedgerUnit, {"id": unit_id}, status=status.value, status_at=clock.now())


def open_episode(unit_id: str) -> Drift | None:
    return found(Drift, slot=unit_id)


def episode(drift_id: str) -> Drift | None:
    return found(Drift, id=drift_id)


def healing() -> list[Drift]:
    """Episodes with an attempt under way, of whatever watcher began it."""
    return list(Drift.objects.filter(state=Episode.HEALING.value).order_by("id"))


def begin_episode(ledger: Ledger, comparison: Comparison, now: datetime, **more: Any) -> bool:
    """False when another watcher has begun it."""
    row = Drift(
        id=new_uuid7(),
        slot=ledger.unit_id,
        unit_id=ledger.unit_id,
        rule_id=ledger.rule_id,
        platform=ledger.platform,
        datasource=ledger.datasource,
        kind=ledger.kind,
        tenant=ledger.tenant,
        env=ledger.env,
        repo=ledger.repo,
        destination=ledger.destination,
        state=Episode.OPEN.value,
        first_seen_at=now,
        heal={"attempts": 0},
        **_as_seen(ledger, comparison, now),
        **more,
    )
    return inserted(row)


def go_on(row: Drift, ledger: Ledger, comparison: Comparison, now: datetime, **more: Any) -> bool:
    """Seen once more."""
    return write(row, polls=row.polls + 1, **_as_seen(ledger, comparison, now), **more)


def _as_seen(ledger: Ledger, comparison: Comparison, now: datetime) -> dict[str, Any]:
    assert ledger.applied is not None
    return {
        "ref": ledger.applied.ref,
        "commit": ledger.applied.commit,
        "generation": ledger.applied.generation,
        "last_seen_at": now,
        "counts": comparison.counts,
        "changes": changes_listed(comparison, MAX_CHANGES),
    }


def write(row: Drift, **fields: Any) -> bool:
    """On the version that was read."""
    where = {"id": row.id, "version": row.version}
    return changed(Drift, where, version=row.version + 1, **fields)


def close(row: Drift, state: Episode, *, by: str = "", **fields: Any) -> bool:
    """The unit may have another episode now."""
    return write(
        row,
        state=state.value,
        slot=row.id,
        resolved_at=clock.now(),
        resolved_by=by,
        **fields,
    )


def forget_old(now: datetime) -> None:
    closed = Drift.objects.filter(last_seen_at__lt=now - KEPT)
    closed.exclude(state__in=_OPEN).delete()


def remembered(unit_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    rows: QuerySet[WatchState] = WatchState.objects.filter(id__in=list(unit_ids))
    return {row.id: row.content for row in rows}


def remember(unit_id: str, content: Mapping[str, Any]) -> None:
    row = WatchState(id=unit_id, content=dict(content))
    if not changed(WatchState, {"id": unit_id}, content=dict(content)):
        inserted(row)


@dataclass(frozen=True, slots=True)
class LeaderRecord:
    """The leader's row as it was read."""

    holder: str
    beat: int
    version: int


def lead() -> LeaderRecord | None:
    row = found(Leader, id=_LEADER)
    return LeaderRecord(row.holder, row.beat, row.version) if row else None


def take_lead(me: str, seen: LeaderRecord | None) -> LeaderRecord | None:
    """One conditional write, on what was seen standing still; None when another one has it."""
    if seen is None:
        first = Leader(id=_LEADER, holder=me)
        return LeaderRecord(me, 0, 1) if inserted(first) else None
    where = {"id": _LEADER, "holder": seen.holder, "beat": seen.beat, "version": seen.version}
    mine = LeaderRecord(me, seen.beat + 1, seen.version + 1)
    return mine if changed(Leader, where, holder=me, beat=mine.beat, version=mine.version) else None


def beat(mine: LeaderRecord) -> LeaderRecord | None:
    """None when it is no longer ours."""
    where = {"id": _LEADER, "holder": mine.holder, "version": mine.version}
    again = LeaderRecord(mine.holder, mine.beat + 1, mine.version)
    return again if changed(Leader, where, beat=again.beat) else None


def give_up_lead(mine: LeaderRecord) -> None:
    where = {"id": _LEADER, "holder": mine.holder, "version": mine.version}
    changed(Leader, where, holder="", version=mine.version + 1)
