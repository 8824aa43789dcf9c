"""Writes of ledgers: each is written as a whole, on the version that was read."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from kernel.ids import new_uuid7
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.domain import identity
from sync_stack.orchestrator.domain.ledger_codec import COLUMNS, encode
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.services.compare_and_set import insert_if_absent, update_if_unchanged


def create(ledger: Ledger, destination: Destination) -> Ledger | None:
    """Insert the ledger of a new target; return None if another task has done so."""
    made = replace(ledger, unit_id=ledger.unit_id or new_uuid7(), version=1)
    row = LedgerTarget(
        id=made.unit_id,
        version=1,
        key=identity.key_of(made).hash,
        address=destination.address,
        separator=destination.separator,
        **_columns(made),
    )
    return made if insert_if_absent(row) else None


def save(ledger: Ledger) -> Ledger | None:
    """Write a ledger on the version that was read; return None if that has changed."""
    where = {"id": ledger.unit_id, "version": ledger.version}
    fields = _columns(ledger) | {"key": identity.key_of(ledger).hash}
    if not update_if_unchanged(LedgerTarget, where, version=ledger.version + 1, **fields):
        return None
    return replace(ledger, version=ledger.version + 1)


def _columns(ledger: Ledger) -> dict[str, object]:
    applied, intent = ledger.applied, ledger.intent
    return {
        **{name: getattr(ledger, name) for name in COLUMNS},
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
    }


def mark_stale(unit_ids: Iterable[str], since: str) -> None:
    """Mark targets whose ref could not be read or parsed; an older mark stays."""
    LedgerTarget.objects.filter(id__in=list(unit_ids), stale_since="").update(stale_since=since)


def unmark_stale(rule: str, repo: str, *, but: Collection[str] = ()) -> None:
    """Unmark the targets of a repository that could be read, except those of refs in `but`."""
    rows = LedgerTarget.objects.filter(rule_id=rule, repo=repo).exclude(stale_since="")
    rows.exclude(ref__in=list(but)).update(stale_since="")


def unmark_stale_of_ref(rule: str, repo: str, ref: str) -> None:
    rows = LedgerTarget.objects.filter(rule_id=rule, repo=repo, ref=ref).exclude(stale_since="")
    rows.update(stale_since="")


def delete(unit_id: str, version: int) -> bool:
    """Delete a ledger without an intent; return False if it has changed."""
    rows = LedgerTarget.objects.filter(id=unit_id, version=version, intent_task_id="")
    return bool(rows.delete()[0])
