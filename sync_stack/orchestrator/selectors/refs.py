"""Reads of ref records (reference: sync-stack 4.4)."""

from __future__ import annotations

from sync_stack.orchestrator.domain.identity import ObservedRef, RecordedRef, RefName
from sync_stack.orchestrator.models import LedgerTarget, RefRecord


def find(name: RefName) -> RecordedRef | None:
    row = RefRecord.objects.filter(id=name.hash).first()
    return None if row is None else ref_record_of(row)


def list_all() -> list[RecordedRef]:
    return [ref_record_of(row) for row in RefRecord.objects.order_by("id")]


def without_target() -> dict[str, str]:
    """Return record → the task it names for refs that no target was applied from."""
    applied = set(LedgerTarget.objects.values_list("rule_id", "repo", "ref"))
    return {
        row.id: row.seen.get("task_id", "")
        for row in RefRecord.objects.order_by("id")
        if (row.rule_id, row.repo, row.ref) not in applied
    }


def named_tasks() -> set[str]:
    seen = RefRecord.objects.values_list("seen", flat=True)
    return {entry["task_id"] for entry in seen if entry}


def ref_record_of(row: RefRecord) -> RecordedRef:
    return RecordedRef(
        name=RefName(rule=row.rule_id, repo=row.repo, ref=row.ref),
        platform=row.platform,
        datasource=row.datasource,
        observed=ObservedRef(**row.seen) if row.seen else None,
        recent=tuple(row.recent),
        pr_time=row.pr_time,
        version=row.version,
    )
