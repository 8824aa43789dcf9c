"""Encode ledgers as compressed, compact JSON without any value of a setting."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sync_stack.core.ledger import Intent, Ledger, LedgerKey, RetainedKey, TargetState
from sync_stack.core.tasks import TaskError

COLUMNS: Final = (  # fields of a ledger that its row has as columns
    *("rule_id", "tenant", "platform", "datasource", "kind", "repo", "env"),
    *("destination", "destination_id", "stale_since"),
)
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
    """Encode a ledger. Raises TaskError(too_many_keys) beyond 12 MiB."""
    applied = ledger.applied
    document = {
        "applied": applied and {**_facts_out(applied), "keys": _keys_out(applied.keys)},
        "intent": _intent_out(ledger),
        "journal": ledger.intent.journal if ledger.intent else "",
        "retained": _encode_retained(ledger.retained),
        "intent_retained": _encode_retained(ledger.intent.retained) if ledger.intent else {},
        "former_rules": sorted(ledger.former_rules),
        "digest_key_id": ledger.digest_key_id,
    }
    packed = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)
    if len(packed) > MAX_BYTES:
        raise TaskError("too_many_keys", f"the ledger is larger than {MAX_BYTES} bytes")
    return packed


def decode(content: bytes, columns: Ledger) -> Ledger:
    """Return the ledger of a row from its content and `columns`, which hold the other columns."""
    document = json.loads(zlib.decompress(content))
    stored = document["applied"]
    applied = _state_of(stored, _keys_in(stored["keys"])) if stored else None
    return replace(
        columns,
        applied=applied,
        intent=_intent_in(document, applied),
        retained=_decode_retained(document["retained"]),
        former_rules=frozenset(document["former_rules"]),
        digest_key_id=document["digest_key_id"],
    )


def _intent_out(ledger: Ledger) -> dict[str, object] | None:
    """Return the intent with its keys as changes of the applied ones."""
    if ledger.intent is None:
        return None
    keys = ledger.intent.state.keys
    before = ledger.applied.keys if ledger.applied else {}
    return {
        **_facts_out(ledger.intent.state),
        "changed": _keys_out({k: entry for k, entry in keys.items() if before.get(k) != entry}),
        "gone": [key for key in before if key not in keys],
    }


def _intent_in(document: Mapping[str, Any], applied: TargetState | None) -> Intent | None:
    stored = document["intent"]
    if stored is None:
        return None
    retained = _decode_retained(document["intent_retained"])
    state = _state_of(stored, _intended_keys(stored, applied))
    return Intent(state=state, journal=document["journal"], retained=retained)


def _intended_keys(stored: Mapping[str, Any], applied: TargetState | None) -> dict[str, LedgerKey]:
    """Return the keys of an intent; one of an older version is stored with all of them."""
    if "keys" in stored:
        return _keys_in(stored["keys"])
    keys = {**(applied.keys if applied else {}), **_keys_in(stored["changed"])}
    for key in stored["gone"]:
        del keys[key]
    return keys


def _encode_retained(retained: Mapping[str, RetainedKey]) -> dict[str, list[str]]:
    return {key: [entry.record, entry.digest, entry.since] for key, entry in retained.items()}


def _decode_retained(document: Mapping[str, list[str]]) -> dict[str, RetainedKey]:
    return {
        key: RetainedKey(record=record, digest=digest, since=since)
        for key, (record, digest, since) in document.items()
    }


def _facts_out(state: TargetState) -> dict[str, object]:
    """Return all fields but the keys."""
    return {name: getattr(state, name) for name in _STATE_TEXTS} | {"files": list(state.files)}


def _keys_out(keys: Mapping[str, LedgerKey]) -> dict[str, list[Any]]:
    return {
        key: [record, digest, file, int(secret)]
        for key, (record, digest, file, secret) in keys.items()
    }


def _state_of(document: Mapping[str, Any], keys: Mapping[str, LedgerKey]) -> TargetState:
    texts = {name: document[name] for name in _STATE_TEXTS}
    return TargetState(**texts, files=tuple(document["files"]), keys=keys)


def _keys_in(document: Mapping[str, list[Any]]) -> dict[str, LedgerKey]:
    return {
        key: LedgerKey(record, digest, file, bool(secret))
        for key, (record, digest, file, secret) in document.items()
    }
