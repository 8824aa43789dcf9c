"""Reads of the ledger: targets, what they wrote, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.domain.ledger_codec import COLUMNS, decode
from sync_stack.orchestrator.models import LedgerTarget, Task


def find(key: TargetKey) -> Ledger | None:
    row = LedgerTarget.objects.filter(key=key.hash).first()
    return None if row is None else ledger_of(row)


def get(unit_id: str) -> Ledger | None:
    row = get_row(unit_id)
    return None if row is None else ledger_of(row)


def get_row(unit_id: str) -> LedgerTarget | None:
    return LedgerTarget.objects.filter(id=unit_id).first()


def ledger_of(row: LedgerTarget) -> Ledger:
    columns = {name: getattr(row, name) for name in COLUMNS}
    ledger = Ledger(unit_id=row.id, version=row.version, digest_key_id="", **columns)
    return decode(bytes(row.content), ledger)


def destination_of(row: LedgerTarget) -> Destination:
    return Destination(
        kind=row.kind, name=row.destination, address=row.address, separator=row.separator
    )


def versions(rule: str, repo: str) -> dict[str, int]:
    """Return target → version for all targets of a rule in a repository."""
    rows = LedgerTarget.objects.filter(rule_id=rule, repo=repo)
    return dict(rows.values_list("id", "version"))


def of_rule(rule: str, *, repo: str = "", env: str = "") -> list[Ledger]:
    """Return the targets of a rule, or those of a repository or environment ("": any)."""
    rows = LedgerTarget.objects.filter(rule_id=rule)
    rows = rows.filter(repo=repo) if repo else rows
    rows = rows.filter(env=env) if env else rows
    return [ledger_of(row) for row in rows.order_by("id")]


def at_destination(destination_id: str, *, other_than: str = "") -> list[Ledger]:
    rows = LedgerTarget.objects.filter(destination_id=destination_id).exclude(id=other_than)
    return [ledger_of(row) for row in rows.order_by("id")]


def with_intents(rule: str, repo: str) -> list[tuple[Ledger, Destination]]:
    """Return targets of a rule in a repository that have an intent, with their destinations."""
    rows = LedgerTarget.objects.filter(rule_id=rule, repo=repo).exclude(intent_task_id="")
    return [(ledger_of(row), destination_of(row)) for row in rows.order_by("id")]


def with_intent_of(task_id: str) -> list[Ledger]:
    rows = LedgerTarget.objects.filter(intent_task_id=task_id).order_by("id")
    return [ledger_of(row) for row in rows]


def may_overlap(kind: str, *, older_than: str) -> dict[str, Destination]:
    """Return owner → destination for targets whose records extend the destination's name."""
    rows = LedgerTarget.objects.filter(kind=kind).exclude(separator="").order_by("id")
    if older_than:
        rows = rows.filter(id__lt=older_than)
    rows = rows.only("rule_id", "repo", "env", "kind", "destination", "address", "separator")
    return {f"rule {row.rule_id!r}, {row.repo}, {row.env}": destination_of(row) for row in rows}


def stale_refs(rule: str, repo: str) -> set[str]:
    rows = LedgerTarget.objects.filter(rule_id=rule, repo=repo).exclude(stale_since="")
    return set(rows.values_list("ref", flat=True))


def adoptable(key: TargetKey, known_rules: frozenset[str]) -> Ledger | None:
    """Return the ledger of a removed rule at the same destination, as one of the key's rule."""
    rows = LedgerTarget.objects.filter(
        destination_id=key.destination_id, repo=key.repo, env=key.env
    ).order_by("id")
    row = next((row for row in rows if row.rule_id not in known_rules), None)
    if row is None:
        return None
    ledger = ledger_of(row)
    former = ledger.former_rules | {ledger.rule_id}
    return replace(ledger, rule_id=key.rule, former_rules=former)


def named_tasks() -> set[str]:
    rows = LedgerTarget.objects.values_list("last_task_id", "intent_task_id")
    return {name for pair in rows for name in pair if name}


def intents_of_ref(rule: str, repo: str, ref: str) -> dict[str, str]:
    """Return target → task of its intent for targets that were last applied from a ref."""
    rows = LedgerTarget.objects.filter(rule_id=rule, repo=repo, ref=ref)
    return dict(rows.values_list("id", "intent_task_id"))


def tasks_of_first_intents(rule: str, repo: str, ref: str) -> set[str]:
    """Return the tasks that began to write targets of a ref to which nothing was applied yet."""
    begun = (ledger for ledger, _ in with_intents(rule, repo) if ledger.applied is None)
    intents = (ledger.intent for ledger in begun)
    return {intent.state.task_id for intent in intents if intent and intent.state.ref == ref}


def count_stale() -> int:
    return LedgerTarget.objects.exclude(stale_since="").count()


def list_targets(where: Mapping[str, Any], *, after: str, limit: int) -> list[LedgerTarget]:
    rows = LedgerTarget.objects.filter(**where, id__gt=after).order_by("id").defer("content")
    return list(rows[:limit])


def is_rule_known(name: str) -> bool:
    """Return whether a target or a task belongs to this rule."""
    return (
        LedgerTarget.objects.filter(rule_id=name).exists()
        or Task.objects.filter(facets__contains=f"\nrule:{name}\n").exists()
    )


def rules_with_targets() -> set[str]:
    return set(LedgerTarget.objects.values_list("rule_id", flat=True))
