"""Journals: what a destination held before an intent, encrypted, in chunks of at most 4 MiB."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kernel.ids import new_uuid7
from sync_stack.core.journal import JournalRecord
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator import derived_keys
from sync_stack.orchestrator.models import JournalChunk, LedgerTarget

CHUNK_BYTES: Final = 4 * 2**20
_NONCE: Final = 12


def store(records: Iterable[JournalRecord], *, task_id: str) -> str:
    """Store a journal and return its name; it is durable before anything names it."""
    name = new_uuid7()
    text = zlib.compress(json.dumps([asdict(record) for record in records]).encode(), 1)
    for number, start in enumerate(range(0, len(text), CHUNK_BYTES)):
        JournalChunk.objects.create(
            id=f"{name}:{number}",
            journal=name,
            number=number,
            task_id=task_id,
            content=_seal(text[start : start + CHUNK_BYTES], f"{name}:{number}"),
        )
    return name


def load(name: str) -> tuple[JournalRecord, ...]:
    """Return the records of a journal. Raises TaskError(restore_failed)."""
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


def delete(name: str) -> None:
    JournalChunk.objects.filter(journal=name).delete()


def list_unnamed(limit: int) -> list[str]:
    """Return journals that no intent names."""
    names = JournalChunk.objects.order_by("journal").values_list("journal", flat=True).distinct()
    known = set(LedgerTarget.objects.exclude(journal="").values_list("journal", flat=True))
    return [name for name in names[:limit] if name not in known]


def tasks_of(names: Sequence[str]) -> dict[str, str]:
    """Return journal → the task that stored it."""
    rows = JournalChunk.objects.filter(journal__in=list(names), number=0)
    return dict(rows.values_list("journal", "task_id"))


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
