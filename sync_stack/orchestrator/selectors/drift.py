"""Reads of drift: episodes, snapshots of targets, and the heal states of the watcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from sync_stack.core.drift import Episode
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.models import Drift, Lease, LedgerUnit, WatchState
from sync_stack.orchestrator.selectors import ledgers, tasks


def list_drift(
    where: Mapping[str, Any], *, since: datetime | None, before: str, limit: int
) -> list[Drift]:
    rows = Drift.objects.filter(**where).order_by("-id")
    if since is not None:
        rows = rows.filter(last_seen_at__gte=since)
    if before:
        rows = rows.filter(id__lt=before)
    return list(rows[:limit])


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
    row = LedgerUnit.objects.filter(id=unit_id).first()
    if row is None:
        return None
    ledger = ledgers.ledger_of(row)
    lease = Lease.objects.filter(id=row.destination_id).first()
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
    lease = Lease.objects.filter(id=seen.ledger.destination_id).first()
    return (version.first(), _lease_token(lease)) == seen.token


def open_episode(unit_id: str) -> Drift | None:
    return Drift.objects.filter(slot=unit_id).first()


def episode(drift_id: str) -> Drift | None:
    return Drift.objects.filter(id=drift_id).first()


def healing() -> list[Drift]:
    """Episodes with an attempt under way, of whatever watcher began it."""
    return list(Drift.objects.filter(state=Episode.HEALING.value).order_by("id"))


def remembered(unit_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    rows: QuerySet[WatchState] = WatchState.objects.filter(id__in=list(unit_ids))
    return {row.id: row.content for row in rows}
