"""Reads of ref records (reference: sync-stack 4.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sync_stack.orchestrator.domain.identity import ObservedRef, RecordedRef, RefName
from sync_stack.orchestrator.models import LedgerTarget, RefRecord
from sync_stack.orchestrator.selectors.task_refs import MAX_NAMES, in_chunks


def find(name: RefName) -> RecordedRef | None:
    row = RefRecord.objects.filter(id=name.hash).first()
    return None if row is None else ref_record_of(row)


def list_all() -> list[RecordedRef]:
    return [ref_record_of(row) for row in RefRecord.objects.order_by("id")]


def list_observed(where: Mapping[str, str], *, limit: int) -> list[RecordedRef]:
    """Return what was observed of refs, without their commits and times of pull requests."""
    rows = RefRecord.objects.filter(**where).order_by("id").defer("recent", "pr_time")
    return [_observed_ref_of(row) for row in rows[:limit]]


def list_observed_of(record_ids: Collection[str]) -> list[RecordedRef]:
    """Return what was observed of these refs, as `list_observed`."""
    rows = RefRecord.objects.defer("recent", "pr_time")
    return [
        _observed_ref_of(row)
        for chunk in in_chunks(record_ids)
        for row in rows.filter(id__in=chunk)
    ]


def list_applied(repos: Collection[str], where: Mapping[str, str]) -> set[RefName]:
    """Return the refs from which a target was applied, of these repositories at least."""
    rows = LedgerTarget.objects.filter(**where)
    if "repo" not in where and len(repos) <= MAX_NAMES:
        rows = rows.filter(repo__in=sorted(repos))
    names = rows.values_list("rule_id", "repo", "ref")
    return {RefName(rule=rule, repo=repo, ref=ref) for rule, repo, ref in names}


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
    return replace(
        _observed_ref_of(row),
        recent=tuple(row.recent),
        pr_time=row.pr_time,
        version=row.version,
    )


def _observed_ref_of(row: RefRecord) -> RecordedRef:
    return RecordedRef(
        name=RefName(rule=row.rule_id, repo=row.repo, ref=row.ref),
        platform=row.platform,
        datasource=row.datasource,
        observed=ObservedRef(**row.seen) if row.seen else None,
    )
