"""Values of the ledger: what a target wrote, means to write and still owns.

The ledger stores digests, never the values of settings. The orchestrator maps these types to rows.
(reference: sync-stack 4.7)
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

DIGEST_LENGTH: Final = 32  # hex characters


def digest(key: bytes, value: str) -> str:
    """Return the first 32 hex digits of HMAC-SHA256(digest key, value)."""
    return hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:DIGEST_LENGTH]


def digester(key: bytes) -> Callable[[str], str]:
    """Return `digest` with this key, for many values."""
    keyed = hmac.new(key, digestmod=hashlib.sha256)

    def of(value: str) -> str:
        one = keyed.copy()
        one.update(value.encode())
        return one.hexdigest()[:DIGEST_LENGTH]

    return of


class LedgerKey(NamedTuple):
    """One key as written, or about to be. A tuple, because a target may have many thousands."""

    record: str
    digest: str
    file: str = ""
    secret: bool = False


class RetainedKey(NamedTuple):
    """Written by us, no longer desired, not deleted (prune off, protected, dry run)."""

    record: str
    digest: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """A desired state of the target: `applied`, or the `intent` of an attempt under way."""

    commit: str
    ref: str
    rule_digest: str
    generation: int
    at: str
    task_id: str
    override_commit: str = ""
    files: tuple[str, ...] = ()
    keys: Mapping[str, LedgerKey] = field(default_factory=dict)

    def missing_files(self) -> frozenset[str]:
        """Return the files that the commit does not have, but whose keys stay (`keep`)."""
        return frozenset(key.file for key in self.keys.values() if key.file) - set(self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """`state` is about to be applied; `journal` names the record of what it replaces.

    `retained` is what the ledger's `retained` becomes with it.
    """

    state: TargetState
    journal: str
    retained: Mapping[str, RetainedKey] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """One target. `version` rises with every conditional write."""

    unit_id: str
    rule_id: str
    tenant: str
    platform: str
    datasource: str
    kind: str
    repo: str
    env: str
    destination: str
    destination_id: str
    digest_key_id: str
    applied: TargetState | None = None
    intent: Intent | None = None
    retained: Mapping[str, RetainedKey] = field(default_factory=dict)
    former_rules: frozenset[str] = frozenset()
    stale_since: str = ""
    version: int = 0

    def owned_keys(self) -> dict[str, LedgerKey]:
        """Return the owned keys from retained, applied and intent; the newest entry wins.

        The planner adds live records with the target's marker, which are owned as well.
        """
        keys: dict[str, LedgerKey] = {
            key: LedgerKey(record=kept.record, digest=kept.digest)
            for key, kept in self.retained.items()
        }
        for state in (self.applied, self.intent.state if self.intent else None):
            keys.update(state.keys if state else {})
        return keys

    def records(self) -> frozenset[str]:
        """Return all records with an owned key: a read must ask for them."""
        return frozenset(entry.record for entry in self.owned_keys().values())

    def settled_records(self) -> frozenset[str]:
        """Return the records of finished attempts; an intent's may not exist."""
        applied = self.applied.keys if self.applied else {}
        return frozenset(
            entry.record for keys in (applied, self.retained) for entry in keys.values()
        )
