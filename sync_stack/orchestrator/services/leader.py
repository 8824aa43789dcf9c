"""The one watcher that polls, as its row says: a conditional write (reference: sync-stack 6.6)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from django.db.models import QuerySet

from sync_stack.orchestrator.models import Leader

_LEADER: Final = "watcher"


@dataclass(frozen=True, slots=True)
class LeaderRecord:
    """The leader's row as it was read."""

    holder: str
    beat: int
    version: int


def current() -> LeaderRecord | None:
    row = Leader.objects.filter(id=_LEADER).first()
    return LeaderRecord(row.holder, row.beat, row.version) if row else None


def acquire(me: str, before: LeaderRecord | None) -> LeaderRecord | None:
    """Take the lead from `before`, whose heartbeat has stopped; return None if another one has."""
    if before is None:
        return LeaderRecord(me, 0, 1) if Leader(id=_LEADER, holder=me).insert() else None
    lead = LeaderRecord(me, before.beat + 1, before.version + 1)
    taken = Leader.objects.filter(id=_LEADER, **asdict(before)).update(**asdict(lead))
    return lead if taken else None


def renew(lead: LeaderRecord) -> LeaderRecord | None:
    """Raise the heartbeat of the leader; return None if another one leads."""
    renewed = LeaderRecord(lead.holder, lead.beat + 1, lead.version)
    return renewed if _row_of(lead).update(beat=renewed.beat) else None


def resign(lead: LeaderRecord) -> None:
    _row_of(lead).update(holder="", version=lead.version + 1)


def _row_of(lead: LeaderRecord) -> QuerySet[Leader]:
    """Return the row while `lead` holds, whatever its heartbeat."""
    return Leader.objects.filter(id=_LEADER, holder=lead.holder, version=lead.version)
