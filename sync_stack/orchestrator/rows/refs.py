"""What was last seen of each ref (reference: sync-stack 4.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from sync_stack.orchestrator.models import LedgerUnit, RefRecord
from sync_stack.orchestrator.rows.compare_and_set import changed, found, inserted

MAX_RECENT: Final = 20
GONE: Final = "0" * 40
_RACES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RefName:
    rule: str
    repo: str
    ref: str

    @property
    def hash(self) -> str:
        return hashlib.sha256("\n".join((self.rule, self.repo, self.ref)).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRef:
    """`dead`: how many tasks in a row ended DEAD with it.

    `action` and `fork`: of a pull request's latest event; the ref itself tells neither.
    """

    commit: str
    rule_digest: str
    outcome: str
    task_id: str
    dead: int = 0
    action: str = ""
    fork: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`recent`: commits that were applied, the newest last."""

    name: RefName
    platform: str
    datasource: str
    seen: ObservedRef | None = None
    recent: tuple[str, ...] = ()
    pr_time: str = ""

    def applied(self, commit: str) -> Record:
        kept = [entry for entry in self.recent if entry != commit]
        return replace(self, recent=tuple([*kept, commit][-MAX_RECENT:]))


def find(name: RefName) -> Record | None:
    row = found(RefRecord, id=name.hash)
    return None if row is None else _record(row)


def update(fresh: Record, change: Callable[[Record], Record]) -> Record:
    """Apply `change` to the stored record, or to `fresh` where there is none yet."""
    for _ in range(_RACES):
        row = found(RefRecord, id=fresh.name.hash)
        wanted = change(_record(row) if row else fresh)
        if row is None:
            if inserted(RefRecord(id=fresh.name.hash, version=1, **_columns(wanted))):
                return wanted
        elif changed(
            RefRecord,
            {"id": row.id, "version": row.version},
            version=row.version + 1,
            **_columns(wanted),
        ):
            return wanted
    raise RuntimeError(f"no end of changes to the record of {fresh.name.ref}")


def every() -> list[Record]:
    return [_record(row) for row in RefRecord.objects.order_by("id")]


def without_unit() -> dict[str, str]:
    """Record → the task it names, of refs that no unit was applied from."""
    units = set(LedgerUnit.objects.values_list("rule_id", "repo", "ref"))
    return {
        row.id: row.seen.get("task_id", "")
        for row in RefRecord.objects.order_by("id")
        if (row.rule_id, row.repo, row.ref) not in units
    }


def delete(record_id: str, task_id: str) -> None:
    """Unless another task has seen the ref meanwhile."""
    for row in RefRecord.objects.filter(id=record_id):
        if row.seen.get("task_id", "") == task_id:
            RefRecord.objects.filter(id=record_id, version=row.version).delete()


def named_tasks() -> set[str]:
    seen = RefRecord.objects.values_list("seen", flat=True)
    return {entry["task_id"] for entry in seen if entry}


def _record(row: RefRecord) -> Record:
    return Record(
        name=RefName(rule=row.rule_id, repo=row.repo, ref=row.ref),
        platform=row.platform,
        datasource=row.datasource,
        seen=ObservedRef(**row.seen) if row.seen else None,
        recent=tuple(row.recent),
        pr_time=row.pr_time,
    )


def _columns(record: Record) -> dict[str, Any]:
    seen = record.seen
    return {
        "rule_id": record.name.rule,
        "repo": record.name.repo,
        "ref": record.name.ref,
        "platform": record.platform,
        "datasource": record.datasource,
        "seen": {name: getattr(seen, name) for name in ObservedRef.__slots__} if seen else {},
        "recent": list(record.recent),
        "pr_time": record.pr_time,
    }
