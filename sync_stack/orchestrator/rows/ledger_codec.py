"""Ledgers as bytes: compact JSON, compressed; no value of a setting is in it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from sync_stack.core.ledger import Intent, Ledger, LedgerKey, RetainedKey, State
from sync_stack.core.tasks import TaskError

MAX_BYTES: Final = 12 * 2**20
_STATE_TEXTS: Final = (
    "commit",
    "ref",
    "rule_digest",
    "generation",
    "at",
    "task_id",
    "override_commit",
)


def encode(ledger: Ledger) -> bytes:
    """Raises TaskError(too_many_keys) beyond 12 MiB."""
    document = {
        "applied": _state_out(ledger.applied),
        "intent": _state_out(ledger.intent.state) if ledger.intent else None,
        "journal": ledger.intent.journal if ledger.intent else "",
        "retained": _retained_out(ledger.retained),
        "intent_retained": _retained_out(ledger.intent.retained) if ledger.intent else {},
        "former_rules": sorted(ledger.former_rules),
        "digest_key_id": ledger.digest_key_id,
    }
    packed = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)
    if len(packed) > MAX_BYTES:
        raise TaskError("too_many_keys", f"the ledger is larger than {MAX_BYTES} bytes")
    return packed


def decode(content: bytes) -> dict[str, Any]:
    """The fields of a Ledger that are kept in its content."""
    document = json.loads(zlib.decompress(content))
    return {
        "applied": _state_in(document["applied"]),
        "intent": _intent_in(document),
        "retained": _retained_in(document["retained"]),
        "former_rules": frozenset(document["former_rules"]),
        "digest_key_id": document["digest_key_id"],
    }


def _intent_in(document: Mapping[str, Any]) -> Intent | None:
    state = _state_in(document["intent"])
    if state is None:
        return None
    retained = _retained_in(document["intent_retained"])
    return Intent(state=state, journal=document["journal"], retained=retained)


def _retained_out(retained: Mapping[str, RetainedKey]) -> dict[str, list[str]]:
    return {key: [entry.record, entry.digest, entry.since] for key, entry in retained.items()}


def _retained_in(document: Mapping[str, list[str]]) -> dict[str, RetainedKey]:
    return {
        key: RetainedKey(record=record, digest=digest, since=since)
        for key, (record, digest, since) in document.items()
    }


def _state_out(state: State | None) -> dict[str, Any] | None:
    if state is None:
        return None
    document: dict[str, Any] = {name: getattr(state, name) for name in _STATE_TEXTS}
    document["files"] = list(state.files)
    document["keys"] = {
        key: [entry.record, entry.digest, entry.file, int(entry.secret)]
        for key, entry in state.keys.items()
    }
    return document


def _state_in(document: Mapping[str, Any] | None) -> State | None:
    if document is None:
        return None
    keys = {
        key: LedgerKey(record=record, digest=digest, file=file, secret=bool(secret))
        for key, (record, digest, file, secret) in document["keys"].items()
    }
    texts = {name: document[name] for name in _STATE_TEXTS}
    return State(**texts, files=tuple(document["files"]), keys=keys)
