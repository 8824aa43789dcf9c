"""Writes of ledgers, each as a whole on the version that was read, and the journals of intents.

A journal is what a destination held before an intent: encrypted, in chunks of at most 4 MiB.
(reference: sync-stack 4.7, 4.8)
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kernel.ids import new_uuid7
from sync_stack.core.journal import JournalRecord
from sync_stack.core.ledger import Intent, Ledger
from sync_stack.core.sink import Destination
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator import derived_keys
from sync_stack.orchestrator.domain import identity
from sync_stack.orchestrator.domain.ledger_codec import COLUMNS, encode
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome, TaskMemory
from sync_stack.orchestrator.models import JournalChunk, LedgerTarget
from sync_stack.orchestrator.selectors import ledgers, tasks

CHUNK_BYTES: Final = 4 * 2**20
_NONCE: Final = 12


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
    return made if row.insert() else None


def save(ledger: Ledger) -> Ledger | None:
    """Write a ledger on the version that was read; return None if that has changed."""
    rows = LedgerTarget.objects.filter(id=ledger.unit_id, version=ledger.version)
    saved = replace(ledger, version=ledger.version + 1)
    fields = _columns(ledger) | {"key": identity.key_of(ledger).hash}
    return saved if rows.update(version=saved.version, **fields) else None


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


def store_intent(
    ledger: Ledger, intent: Intent, journal: Iterable[JournalRecord], destination: Destination
) -> Ledger:
    """Store a journal, then the ledger whose intent names it, and delete the one named before.

    A ledger of version 0 is inserted. Raises TaskError(destination_busy) if it has changed.
    """
    before = ledger.intent.journal if ledger.intent else ""
    name = _store_journal(journal, task_id=intent.state.task_id)
    wanted = replace(ledger, intent=replace(intent, journal=name))
    saved = save(wanted) if ledger.version else create(wanted, destination)
    if saved is None:
        raise TaskError("destination_busy", "another task has changed the ledger")
    if before != name:
        delete_journal(before)
    return saved


def commit_intent(ledger: Ledger) -> Ledger:
    """Make the intent `applied` in one write (4.8, step 9), unless that has been done."""
    current: Ledger | None = ledger
    while current is not None and current.intent is not None:
        intent = current.intent
        wanted = replace(current, applied=intent.state, intent=None, retained=intent.retained)
        if saved := save(wanted):
            delete_journal(intent.journal)
            return saved
        current = ledgers.get(ledger.unit_id)
        if current and current.intent and current.intent.state != intent.state:
            break
    return current or ledger


def clear_intent(ledger: Ledger) -> Ledger:
    """Remove an intent whose writes were undone. Raises TaskError(restore_failed)."""
    saved = save(replace(ledger, intent=None))
    if saved is None:
        raise TaskError("restore_failed", "another task has changed the ledger")
    delete_journal(ledger.intent.journal if ledger.intent else "")
    return saved


def is_committed(ledger: Ledger) -> bool:
    """Return whether the task of the intent has stored it among its committed targets."""
    task = tasks.get(ledger.intent.state.task_id) if ledger.intent else None
    return task is not None and has_committed(TaskMemory.of(task.memory).done, ledger)


def has_committed(done: Mapping[str, RuleSyncOutcome], ledger: Ledger) -> bool:
    generation = ledger.intent.state.generation if ledger.intent else 0
    return any(
        target.committed and target.unit_id == ledger.unit_id and target.generation == generation
        for outcome in done.values()
        for target in outcome.targets
    )


def _store_journal(records: Iterable[JournalRecord], *, task_id: str) -> str:
    """Store a journal and return its name, or "" for none; it is durable before it is named."""
    documents = [asdict(record) for record in records]
    if not documents:
        return ""
    name = new_uuid7()
    text = zlib.compress(json.dumps(documents).encode(), 1)
    for number, start in enumerate(range(0, len(text), CHUNK_BYTES)):
        JournalChunk.objects.create(
            id=f"{name}:{number}",
            journal=name,
            number=number,
            task_id=task_id,
            content=_seal(text[start : start + CHUNK_BYTES], f"{name}:{number}"),
        )
    return name


def read_journal(ledger: Ledger) -> tuple[JournalRecord, ...]:
    """Return the records of the intent's journal, if any. Raises TaskError(restore_failed)."""
    name = ledger.intent.journal if ledger.intent else ""
    if not name:
        return ()
    chunks = list(JournalChunk.objects.filter(journal=name).order_by("number"))
    if not chunks:
        raise TaskError("restore_failed", "the journal of an earlier attempt is gone")
    text = b"".join(_unseal(bytes(chunk.content), chunk.id) for chunk in chunks)
    try:
        return tuple(JournalRecord(**entry) for entry in json.loads(zlib.decompress(text)))
    except (zlib.error, ValueError):
        raise TaskError(
            "restore_failed", "the journal of an earlier attempt is incomplete"
        ) from None


def delete_journal(name: str) -> None:
    """Delete a journal that nothing names any more; "" is none."""
    if name:
        JournalChunk.objects.filter(journal=name).delete()


def delete_unnamed_journals(limit: int) -> None:
    """Delete unnamed journals of tasks that have ended; a running one is about to name its own."""
    names = JournalChunk.objects.order_by("journal").values_list("journal", flat=True).distinct()
    known = set(LedgerTarget.objects.exclude(journal="").values_list("journal", flat=True))
    unnamed = [name for name in names[:limit] if name not in known]
    owners = JournalChunk.objects.filter(journal__in=unnamed, number=0)
    for journal, task_id in owners.values_list("journal", "task_id"):
        task = tasks.get(task_id)
        if task is None or task.finished_at is not None:
            delete_journal(journal)


def _seal(text: bytes, name: str) -> bytes:
    nonce = os.urandom(_NONCE)
    return nonce + AESGCM(derived_keys.journal_keys()[0]).encrypt(nonce, text, name.encode())


def _unseal(content: bytes, name: str) -> bytes:
    for key in derived_keys.journal_keys():
        try:
            return AESGCM(key).decrypt(content[:_NONCE], content[_NONCE:], name.encode())
        except InvalidTag:
            continue
    raise TaskError("restore_failed", "the journal was encrypted with an unknown key")
