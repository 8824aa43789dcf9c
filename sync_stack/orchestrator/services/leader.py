"""The one watcher that polls, as its row says: a conditional write (reference: sync-stack 6.6)."""

from __future__ import annotations

from dataclasses import dataclass
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


def lead() -> LeaderRecord | None:
    row = Leader.objects.filter(id=_LEADER).first()
    return LeaderRecord(row.holder, row.beat, row.version) if row else None


def take_lead(me: str, seen: LeaderRecord | None) -> LeaderRecord | None:
    """One conditional write, on what was seen standing still; None when another one has it."""
    if seen is None:
        first = Leader(id=_LEADER, holder=me)
        return LeaderRecord(me, 0, 1) if insert_if_absent(first) else None
    where = {"id": _LEADER, "holder": seen.holder, "beat": seen.beat, "version": seen.version}
    mine = LeaderRecord(me, seen.beat + 1, seen.version + 1)
    return (
        mine
        if update_if_unchanged(Leader, where, holder=me, beat=mine.beat, version=mine.version)
        else None
    )


def beat(mine: LeaderRecord) -> LeaderRecord | None:
    """None when it is no longer ours."""
    where = {"id": _LEADER, "holder": mine.holder, "version": mine.version}
    again = LeaderRecord(mine.holder, mine.beat + 1, mine.version)
    return again if update_if_unchanged(Leader, where, beat=again.beat) else None


def give_up_lead(mine: LeaderRecord) -> None:
    where = {"id": _LEADER, "holder": mine.holder, "version": mine.version}
    update_if_unchanged(Leader, where, holder="", version=mine.version + 1)
