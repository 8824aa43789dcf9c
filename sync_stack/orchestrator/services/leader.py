"""The one watcher that polls, as its row says: a conditional write (reference: sync-stack 6.6)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from sync_stack.orchestrator.models import Leader
from sync_stack.orchestrator.services.compare_and_set import insert_if_absent, update_if_unchanged

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
        first = Leader(id=_LEADER, holder=me)
        return LeaderRecord(me, 0, 1) if insert_if_absent(first) else None
    where = {"id": _LEADER, "holder": before.holder, "beat": before.beat, "version": before.version}
    lead = LeaderRecord(me, before.beat + 1, before.version + 1)
    taken = update_if_unchanged(Leader, where, **asdict(lead))
    return lead if taken else None


def renew(lead: LeaderRecord) -> LeaderRecord | None:
    """Raise the heartbeat of the leader; return None if another one leads."""
    where = {"id": _LEADER, "holder": lead.holder, "version": lead.version}
    renewed = LeaderRecord(lead.holder, lead.beat + 1, lead.version)
    return renewed if update_if_unchanged(Leader, where, beat=renewed.beat) else None


def resign(lead: LeaderRecord) -> None:
    where = {"id": _LEADER, "holder": lead.holder, "version": lead.version}
    update_if_unchanged(Leader, where, holder="", version=lead.version + 1)
