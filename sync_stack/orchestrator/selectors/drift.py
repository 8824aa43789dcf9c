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
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.models import DestinationLock, Drift, LedgerTarget, WatchState
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
class DriftSnapshot:
    """A target as stored; `token` changes with its ledger and with the lock of its destination."""

    ledger: Ledger
    destination: Destination
    status: str
    lock: tuple[int, str, int]
    busy: bool = False
    busy_task: str = ""

    @property
    def token(self) -> tuple[Any, ...]:
        return (self.ledger.version, self.lock)


def list_targets(datasource: str) -> list[LedgerTarget]:
    """Return the targets of a datasource without their ledgers."""
    rows = LedgerTarget.objects.filter(datasource=datasource).defer("content")
    return list(rows.order_by("id"))


def snapshot(unit_id: str) -> DriftSnapshot | None:
    row = LedgerTarget.objects.filter(id=unit_id).first()
    if row is None:
        return None
    ledger = ledgers.ledger_of(row)
    lock = DestinationLock.objects.filter(id=row.destination_id).first()
    holder = _working(ledger, lock)
    return DriftSnapshot(
        ledger=ledger,
        destination=ledgers.destination_of(row),
        status=row.status,
        lock=_lock_token(lock),
        busy=bool(holder),
        busy_task=holder,
    )


def _lock_token(lock: DestinationLock | None) -> tuple[int, str, int]:
    return (lock.generation, lock.holder_task, lock.holder_attempt) if lock else (0, "", 0)


def _working(ledger: Ledger, lock: DestinationLock | None) -> str:
    """Return the id of the task that writes at the destination or will finish its intent."""
    if lock and tasks.is_running(Claim(lock.holder_task, lock.holder_attempt)):
        return lock.holder_task
    if ledger.intent is None:
        return ""
    task = tasks.get(ledger.intent.state.task_id)
    return task.id if task is not None and task.finished_at is None else ""


def is_unchanged(before: DriftSnapshot) -> bool:
    """Return whether destination lock and ledger are as they were."""
    version = LedgerTarget.objects.filter(id=before.ledger.unit_id).values_list(
        "version", flat=True
    )
    lock = DestinationLock.objects.filter(id=before.ledger.destination_id).first()
    return (version.first(), _lock_token(lock)) == before.token


def open_episode(unit_id: str) -> Drift | None:
    return Drift.objects.filter(slot=unit_id).first()


def episode(drift_id: str) -> Drift | None:
    return Drift.objects.filter(id=drift_id).first()


def list_healing() -> list[Drift]:
    """Return the episodes with an attempt under way, whichever watcher began it."""
    return list(Drift.objects.filter(state=Episode.HEALING.value).order_by("id"))


def heal_states(unit_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    rows: QuerySet[WatchState] = WatchState.objects.filter(id__in=list(unit_ids))
    return {row.id: row.content for row in rows}
