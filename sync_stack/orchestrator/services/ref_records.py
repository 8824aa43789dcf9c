"""Writes of ref records (reference: sync-stack 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sync_stack.orchestrator.domain.identity import ObservedRef, RecordedRef
from sync_stack.orchestrator.models import RefRecord
from sync_stack.orchestrator.selectors.refs import ref_record_of
from sync_stack.orchestrator.services.compare_and_set import insert_if_absent, update_if_unchanged

_RACES: Final = 20


def update(fresh: RecordedRef, change: Callable[[RecordedRef], RecordedRef]) -> RecordedRef:
    """Apply `change` to the stored record, or to `fresh` if none is stored; return the result."""
    for _ in range(_RACES):
        row = RefRecord.objects.filter(id=fresh.name.hash).first()
        wanted = change(ref_record_of(row) if row else fresh)
        if row is None:
            if insert_if_absent(RefRecord(id=fresh.name.hash, version=1, **_columns(wanted))):
                return wanted
        elif update_if_unchanged(
            RefRecord,
            {"id": row.id, "version": row.version},
            version=row.version + 1,
            **_columns(wanted),
        ):
            return wanted
    raise RuntimeError(f"the record of {fresh.name.ref} keeps changing")


def delete(record_id: str, task_id: str) -> None:
    """Delete a record that still names this task."""
    for row in RefRecord.objects.filter(id=record_id):
        if row.seen.get("task_id", "") == task_id:
            RefRecord.objects.filter(id=record_id, version=row.version).delete()


def _columns(record: RecordedRef) -> dict[str, object]:
    observed = record.observed
    return {
        "rule_id": record.name.rule,
        "repo": record.name.repo,
        "ref": record.name.ref,
        "platform": record.platform,
        "datasource": record.datasource,
        "seen": {name: getattr(observed, name) for name in ObservedRef.__slots__}
        if observed
        else {},
        "recent": list(record.recent),
        "pr_time": record.pr_time,
    }
