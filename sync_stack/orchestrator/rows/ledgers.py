"""Rows of ledgers: one a unit, written as a whole and only if nobody else has meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from kernel.ids import new_uuid7
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.models import LedgerUnit
from sync_stack.orchestrator.rows.compare_and_set import changed, found, inserted
from sync_stack.orchestrator.rows.ledger_codec import decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKey:
    """What a unit is: a rule's environment of a repository, at a destination."""

    rule: str
    repo: str
    env: str
    destination_id: str

    @property
    def hash(self) -> str:
        text = "\n".join((self.rule, self.repo, self.env, self.destination_id))
        return hashlib.sha256(text.encode()).hexdigest()


def key_of(ledger: Ledger) -> TargetKey:
    return TargetKey(
        rule=ledger.rule_id,
        repo=ledger.repo,
        env=ledger.env,
        destination_id=ledger.destination_id,
    )


def find(key: TargetKey) -> Ledger | None:
    row = found(LedgerUnit, key=key.hash)
    return None if row is None else ledger_of(row)


def get(unit_id: str) -> Ledger | None:
    row = found(LedgerUnit, id=unit_id)
    return None if row is None else ledger_of(row)


def row(unit_id: str) -> LedgerUnit | None:
    return found(LedgerUnit, id=unit_id)


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


def create(ledger: Ledger, destination: Destination) -> Ledger | None:
    """The first write of a unit; None when somebody else has made it."""
    made = replace(ledger, unit_id=ledger.unit_id or new_uuid7(), version=1)
    row = LedgerUnit(
        id=made.unit_id,
        version=1,
        key=key_of(made).hash,
        address=destination.address,
        separator=destination.separator,
        **_columns(made),
    )
    return made if inserted(row) else None


def save(ledger: Ledger) -> Ledger | None:
    """Write it as it is, on the version that was read; None when that has moved."""
    where = {"id": ledger.unit_id, "version": ledger.version}
    fields = _columns(ledger) | {"key": key_of(ledger).hash}
    if not changed(LedgerUnit, where, version=ledger.version + 1, **fields):
        return None
    return replace(ledger, version=ledger.version + 1)


def _columns(ledger: Ledger) -> dict[str, Any]:
    applied, intent = ledger.applied, ledger.intent
    return {
        "rule_id": ledger.rule_id,
        "tenant": ledger.tenant,
        "platform": ledger.platform,
        "datasource": ledger.datasource,
        "kind": ledger.kind,
        "repo": ledger.repo,
        "env": ledger.env,
        "destination": ledger.destination,
        "destination_id": ledger.destination_id,
        "content": encode(ledger),
        "ref": applied.ref if applied else "",
        "commit": applied.commit if applied else "",
        "rule_digest": applied.rule_digest if applied else "",
        "generation": applied.generation if applied else 0,
        "keys": len(applied.keys) if applied else 0,
        "applied_at": applied.at if applied else "",
        "last_task_id": applied.task_id if applied else "",
        "intent_task_id": intent.state.task_id if intent else "",
        "journal": intent.journal if intent else "",
        "stale_since": ledger.stale_since,
    }


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


def mark_stale(unit_ids: Iterable[str], since: str) -> None:
    """Git could not be read or parsed; an older mark stays. It is no part of the ledger."""
    LedgerUnit.objects.filter(id__in=list(unit_ids), stale_since="").update(stale_since=since)


def stale_refs(rule: str, repo: str) -> set[str]:
    rows = LedgerUnit.objects.filter(rule_id=rule, repo=repo).exclude(stale_since="")
    return set(rows.values_list("ref", flat=True))


def unmark_stale(rule: str, repo: str, *, but: Collection[str] = ()) -> None:
    """Git could be read again; `but`: units of these refs stay stale."""
    rows = LedgerUnit.objects.filter(rule_id=rule, repo=repo).exclude(stale_since="")
    rows.exclude(ref__in=list(but)).update(stale_since="")


def unmark_stale_of_ref(rule: str, repo: str, ref: str) -> None:
    rows = LedgerUnit.objects.filter(rule_id=rule, repo=repo, ref=ref).exclude(stale_since="")
    rows.update(stale_since="")


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


def forget(unit_id: str, version: int) -> bool:
    """Delete a ledger that nobody is at work on; False when it has moved."""
    rows = LedgerUnit.objects.filter(id=unit_id, version=version, intent_task_id="")
    return bool(rows.delete()[0])
