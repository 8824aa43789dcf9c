"""Encode ledgers as compressed, compact JSON without any value of a setting."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sync_stack.core.ledger import Intent, Ledger, LedgerKey, RetainedKey, TargetState
from sync_stack.core.tasks import TaskError

COLUMNS: Final = (  # fields of a ledger that its row has as columns
    *("rule_id", "tenant", "platform", "datasource", "kind", "repo", "env"),
    *("destination", "destination_id", "stale_since"),
)
MAX_BYTES: Final = 12 * 2**20


class StoredIntent(Struct, frozen=True, kw_only=True):
    """The state of an intent, with its keys as changes of the applied ones.

    `keys`: all of them, as an older version stored them.
    """

    commit: str
    ref: str
    rule_digest: str
    generation: int
    at: str
    task_id: str
    override_commit: str
    files: tuple[str, ...]
    keys: dict[str, LedgerKey] | UnsetType = UNSET
    changed: dict[str, LedgerKey] = {}
    gone: tuple[str, ...] = ()


class StoredLedger(Struct, frozen=True, kw_only=True):
    """The content of a ledger's row; `journal` and `intent_retained` are the intent's."""

    applied: TargetState | None
    intent: StoredIntent | None
    journal: str
    retained: Mapping[str, RetainedKey]
    intent_retained: Mapping[str, RetainedKey]
    former_rules: tuple[str, ...]
    digest_key_id: str


_FACTS: Final = tuple(
    name for name in StoredIntent.__struct_fields__ if name not in ("keys", "changed", "gone")
)
_decoder: Final = msgspec.json.Decoder(StoredLedger, strict=False)  # `secret` was stored as 0 or 1


def encode(ledger: Ledger) -> bytes:
    """Encode a ledger. Raises TaskError(too_many_keys) beyond 12 MiB."""
    intent = ledger.intent
    stored = StoredLedger(
        applied=ledger.applied,
        intent=_stored_intent(intent.state, _applied_keys(ledger.applied)) if intent else None,
        journal=intent.journal if intent else "",
        retained=ledger.retained,
        intent_retained=intent.retained if intent else {},
        former_rules=tuple(sorted(ledger.former_rules)),
        digest_key_id=ledger.digest_key_id,
    )
    packed = zlib.compress(msgspec.json.encode(stored), 1)
    if len(packed) > MAX_BYTES:
        raise TaskError("too_many_keys", f"the ledger is larger than {MAX_BYTES} bytes")
    return packed


def decode(content: bytes, columns: Ledger) -> Ledger:
    """Return the ledger of a row from its content and `columns`, which hold the other columns."""
    stored = _decoder.decode(zlib.decompress(content))
    intent = None
    if stored.intent is not None:
        intent = Intent(
            state=_intended_state(stored.intent, _applied_keys(stored.applied)),
            journal=stored.journal,
            retained=stored.intent_retained,
        )
    return replace(
        columns,
        applied=stored.applied,
        intent=intent,
        retained=stored.retained,
        former_rules=frozenset(stored.former_rules),
        digest_key_id=stored.digest_key_id,
    )


def _applied_keys(applied: TargetState | None) -> Mapping[str, LedgerKey]:
    return applied.keys if applied else {}


def _stored_intent(state: TargetState, before: Mapping[str, LedgerKey]) -> StoredIntent:
    return StoredIntent(
        **{name: getattr(state, name) for name in _FACTS},
        changed={key: entry for key, entry in state.keys.items() if before.get(key) != entry},
        gone=tuple(key for key in before if key not in state.keys),
    )


def _intended_state(stored: StoredIntent, before: Mapping[str, LedgerKey]) -> TargetState:
    keys = stored.keys
    if keys is UNSET:
        keys = {**before, **stored.changed}
        for key in stored.gone:
            del keys[key]
    return TargetState(**{name: getattr(stored, name) for name in _FACTS}, keys=keys)
