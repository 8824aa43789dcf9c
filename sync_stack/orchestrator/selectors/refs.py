"""Reads of ref records (reference: sync-stack 4.4)."""

from __future__ import annotations

from sync_stack.orchestrator.domain.identity import ObservedRef, Record, RefName
from sync_stack.orchestrator.models import LedgerUnit, RefRecord


def find(name: RefName) -> Record | None:
    row = RefRecord.objects.filter(id=name.hash).first()
    return None if row is None else ref_record_of(row)


def every() -> list[Record]:
    return [ref_record_of(row) for row in RefRecord.objects.order_by("id")]


def without_unit() -> dict[str, str]:
    """Record → the task it names, of refs that no unit was applied from."""
    units = set(LedgerUnit.objects.values_list("rule_id", "repo", "ref"))
    return {
        row.id: row.seen.get("task_id", "")
        for row in RefRecord.objects.order_by("id")
        if (row.rule_id, row.repo, row.ref) not in units
    }


def named_tasks() -> set[str]:
    seen = RefRecord.objects.values_list("seen", flat=True)
    return {entry["task_id"] for entry in seen if entry}


def ref_record_of(row: RefRecord) -> Record:
    return Record(
        name=RefName(rule=row.rule_id, repo=row.repo, ref=row.ref),
        platform=row.platform,
        datasource=row.datasource,
        seen=ObservedRef(**row.seen) if row.seen else None,
        recent=tuple(row.recent),
        pr_time=row.pr_time,
    )
