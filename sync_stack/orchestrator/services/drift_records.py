"""Writes of drift: episodes, statuses of targets, and the heal states of the watcher."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

import msgspec
from msgspec import Struct

from kernel import clock
from kernel.ids import new_uuid7
from sync_stack.core.drift import Comparison, Episode, TargetStatus, change_documents
from sync_stack.core.ledger import Ledger
from sync_stack.orchestrator.models import Drift, LedgerTarget, WatchState

KEPT: Final = timedelta(days=90)
MAX_CHANGES: Final = 200
_OPEN: Final = (Episode.OPEN.value, Episode.HEALING.value, Episode.UNHEALED.value)


class HealRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `heal` of an episode: how many attempts there were, and the facts of the last one."""

    attempts: int
    next_attempt_at: str = ""
    last_task_id: str = ""
    last_outcome: str = ""


class ObservedDrift(TypedDict):
    """The columns of an episode that every poll writes."""

    ref: str
    commit: str
    generation: int
    last_seen_at: datetime
    counts: dict[str, int]
    changes: list[Mapping[str, object]]


def heal_of(row: Drift) -> HealRecord:
    return msgspec.convert({"attempts": 0, **row.heal}, HealRecord)


def write_status(unit_id: str, before: str, status: TargetStatus) -> None:
    """Store a status with its time, if it has changed."""
    if before != status:
        rows = LedgerTarget.objects.filter(id=unit_id)
        rows.update(status=status.value, status_at=clock.now())


def begin_episode(ledger: Ledger, comparison: Comparison, now: datetime, **more: Any) -> bool:
    """Insert an open episode; return False if another watcher has begun one."""
    return Drift(
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
        heal=msgspec.to_builtins(HealRecord(attempts=0)),
        **_observed_fields(ledger, comparison, now),
        **more,
    ).insert()


def continue_episode(
    row: Drift, ledger: Ledger, comparison: Comparison, now: datetime, **more: Any
) -> bool:
    """Store one more poll that found the drift."""
    return write(row, polls=row.polls + 1, **_observed_fields(ledger, comparison, now), **more)


def _observed_fields(ledger: Ledger, comparison: Comparison, now: datetime) -> ObservedDrift:
    assert ledger.applied is not None
    return {
        "ref": ledger.applied.ref,
        "commit": ledger.applied.commit,
        "generation": ledger.applied.generation,
        "last_seen_at": now,
        "counts": comparison.counts,
        "changes": change_documents(comparison, MAX_CHANGES),
    }


def write(row: Drift, *, heal: HealRecord | None = None, **fields: Any) -> bool:
    """Update an episode on the version that was read; return False if that has changed."""
    if heal is not None:
        fields["heal"] = msgspec.to_builtins(heal)
    rows = Drift.objects.filter(id=row.id, version=row.version)
    return bool(rows.update(version=row.version + 1, **fields))


def close(row: Drift, state: Episode, *, by: str = "", **fields: Any) -> bool:
    """End an episode, so that its target may have another one."""
    return write(
        row,
        state=state.value,
        slot=row.id,
        resolved_at=clock.now(),
        resolved_by=by,
        **fields,
    )


def delete_old_episodes(now: datetime) -> None:
    closed = Drift.objects.filter(last_seen_at__lt=now - KEPT)
    closed.exclude(state__in=_OPEN).delete()


def save_heal_state(unit_id: str, content: Mapping[str, Any]) -> None:
    if not WatchState.objects.filter(id=unit_id).update(content=dict(content)):
        WatchState(id=unit_id, content=dict(content)).insert()
