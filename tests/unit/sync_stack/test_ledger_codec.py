"""Ledgers as bytes and back."""

from __future__ import annotations

import json
import zlib

import pytest

from sync_stack.core.ledger import Intent, Ledger, LedgerKey, RetainedKey, TargetState
from sync_stack.orchestrator.domain.ledger_codec import decode, encode

A = LedgerKey(record="a", digest="1" * 32, file="app.yaml")
B = LedgerKey(record="b", digest="2" * 32, file="app.yaml", secret=True)
RETAINED = {"old": RetainedKey(record="old", digest="3" * 32, since="2026-01-01T00:00:00Z")}


def state(generation: int, **keys: LedgerKey) -> TargetState:
    return TargetState(
        commit="c" * 40,
        ref="refs/heads/main",
        rule_digest="d",
        generation=generation,
        at="2026-01-01T00:00:00Z",
        task_id=f"task-{generation}",
        files=("app.yaml",),
        keys=keys,
    )


def ledger(applied: TargetState | None, intent: TargetState | None) -> Ledger:
    return Ledger(
        unit_id="u",
        rule_id="shop",
        tenant="default",
        platform="github",
        datasource="redis",
        kind="redis",
        repo="acme/shop",
        env="production",
        destination="d",
        destination_id="i",
        digest_key_id="k",
        applied=applied,
        intent=Intent(state=intent, journal="j", retained=RETAINED) if intent else None,
        retained=RETAINED,
        former_rules=frozenset({"older"}),
    )


@pytest.mark.parametrize(
    ("applied", "intent"),
    [
        (None, None),
        (None, state(1, a=A, b=B)),
        (state(1, a=A, b=B), None),
        (state(1, a=A, b=B), state(2, a=A, b=B)),
        (state(1, a=A, b=B), state(2, a=A._replace(digest="4" * 32), b=B)),
        (state(1, a=A, b=B), state(2, b=B)),
        (state(1, a=A), state(2, b=B)),
        (state(1, a=A, b=B), state(2)),
        (state(1, a=A, b=B), state(2, a=A, b=B._replace(secret=False))),
    ],
)
def test_a_ledger_is_read_back_as_it_was_written(applied, intent):
    before = ledger(applied, intent)

    assert decode(encode(before), ledger(None, None)) == before


def test_an_intent_that_changes_one_key_tells_of_that_key_only():
    keys = {f"key{number}": A for number in range(100)}
    after = keys | {"key7": B}

    document = json.loads(zlib.decompress(encode(ledger(state(1, **keys), state(2, **after)))))

    assert list(document["intent"]["changed"]) == ["key7"]


def test_an_intent_that_was_stored_with_all_of_its_keys_is_read():
    before = ledger(state(1, a=A, b=B), state(2, b=B))
    document = json.loads(zlib.decompress(encode(before)))
    for name in ("changed", "gone"):
        del document["intent"][name]
    document["intent"]["keys"] = {"b": [B.record, B.digest, B.file, 1]}

    found = decode(zlib.compress(json.dumps(document).encode()), ledger(None, None))

    assert found == before
