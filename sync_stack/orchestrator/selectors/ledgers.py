"""Reads of the ledger: targets, what they wrote, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.domain.ledger_codec import decode
from sync_stack.orchestrator.models import LedgerUnit, Task


def find(key: TargetKey) -> Ledger | None:
    row = LedgerUnit.objects.filter(key=key.hash).first()
    return None if row is None else ledger_of(row)


def get(unit_id: str) -> Ledger | None:
    row = LedgerUnit.objects.filter(id=unit_id).first()
    return None if row is None else ledger_of(row)


def row(unit_id: str) -> LedgerUnit | None:
    return LedgerUnit.objects.filter(id=unit_id).first()


def ledger_of(row: LedgerUnit) -> Ledger:
    return Ledger(
        unit_id=row.id,
        rule_id=row.rule_id,
        tenant=row.tenant,
        platform=row.platform,
        datasource=row.datasource,
        kind=row.kind,
        repo=row.repo,
        env=row.env,
        destination=row.destination,
        destination_id=row.destination_id,
        stale_since=row.stale_since,
        version=row.version,
        **decode(bytes(row.content)),
    )


def destination_of(row: LedgerUnit) -> Destination:
    return Destination(
        kind=row.kind, name=row.destination, address=row.address, separator=row.separator
    )


def versions(rule: str, repo: str) -> dict[str, int]:
    """Unit → version, of all units of a rule in a repository."""
    rows = LedgerUnit.objects.filter(rule_id=rule, repo=repo)
    return dict(rows.values_list("id", "version"))


def of_repository(rule: str, repo: str) -> list[Ledger]:
    rows = LedgerUnit.objects.filter(rule_id=rule, repo=repo).order_by("id")
    return [ledger_of(row) for row in rows]


def at_destination(destination_id: str, *, other_than: str = "") -> list[Ledger]:
    rows = LedgerUnit.objects.filter(destination_id=destination_id).exclude(id=other_than)
    return [ledger_of(row) for row in rows.order_by("id")]


def with_intents(rule: str, repo: str) -> list[tuple[Ledger, Destination]]:
    """Units of a rule in a repository at which somebody is, or was, at work; and where they are."""
    rows = LedgerUnit.objects.filter(rule_id=rule, repo=repo).exclude(intent_task_id="")
    return [(ledger_of(row), destination_of(row)) for row in rows.order_by("id")]


def with_intent_of(task_id: str) -> list[Ledger]:
    rows = LedgerUnit.objects.filter(intent_task_id=task_id).order_by("id")
    return [ledger_of(row) for row in rows]


def may_overlap(kind: str, *, older_than: str) -> dict[str, Destination]:
    """Name → where, of the units of a kind whose records extend the destination's name."""
    rows = LedgerUnit.objects.filter(kind=kind).exclude(separator="").order_by("id")
    if older_than:
        rows = rows.filter(id__lt=older_than)
    rows = rows.only("rule_id", "repo", "env", "kind", "destination", "address", "separator")
    return {f"rule {row.rule_id!r}, {row.repo}, {row.env}": destination_of(row) for row in rows}


def stale_refs(rule: str, repo: str) -> set[str]:
    rows = LedgerUnit.objects.filter(rule_id=rule, repo=repo).exclude(stale_since="")
    return set(rows.values_list("ref", flat=True))


def abandoned(key: TargetKey, known_rules: frozenset[str]) -> Ledger | None:
    """The unit of a rule that is no more, at the same place: it passes to the rule of `key`."""
    rows = LedgerUnit.objects.filter(
        destination_id=key.destination_id, repo=key.repo, env=key.env
    ).order_by("id")
    row = next((row for row in rows if row.rule_id not in known_rules), None)
    if row is None:
        return None
    ledger = ledger_of(row)
    former = ledger.former_rules | {ledger.rule_id}
    return replace(ledger, rule_id=key.rule, former_rules=former)


def named_tasks() -> set[str]:
    rows = LedgerUnit.objects.values_list("last_task_id", "intent_task_id")
    return {name for pair in rows for name in pair if name}


def intents_of_ref(rule: str, repo: str, ref: str) -> dict[str, str]:
    """Unit → the task of its intent, of the units that were last applied from a ref."""
    rows = LedgerUnit.objects.filter(rule_id=rule, repo=repo, ref=ref)
    return dict(rows.values_list("id", "intent_task_id"))


def stale_units() -> int:
    return LedgerUnit.objects.exclude(stale_since="").count()


def list_units(where: Mapping[str, Any], *, after: str, limit: int) -> list[LedgerUnit]:
    rows = LedgerUnit.objects.filter(**where, id__gt=after).order_by("id").defer("content")
    return list(rows[:limit])


def knows_rule(name: str) -> bool:
    """Whether a unit or a task is of this rule."""
    return (
        LedgerUnit.objects.filter(rule_id=name).exists()
        or Task.objects.filter(facets__contains=f"\nrule:{name}\n").exists()
    )


def rules_of_units() -> set[str]:
    return set(LedgerUnit.objects.values_list("rule_id", flat=True))
