"""What stops a sync from deleting too much: checked before any write.

(reference: sync-stack 4.7)
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sync_stack.core.bundle.model import Prune


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneImpact:
    """How much is at stake: what would go, what we own, whether anything is desired at all."""

    candidates: AbstractSet[str]
    owned: int
    nothing_desired: bool


def guard_hit(
    doomed: PruneImpact, limits: Prune, *, approved: AbstractSet[str] = frozenset()
) -> str:
    """Why the guard refuses, in words; "" when it does not.

    `approved` waives it for exactly the keys that an operator has seen: one more key that would go
    and the guard stands.
    """
    going = len(doomed.candidates)
    if not going or doomed.candidates <= approved:
        return ""
    if doomed.nothing_desired and not limits.allow_empty:
        return f"nothing is desired: all {going} key(s) would go"
    ratio = going / max(doomed.owned, going)
    if going > limits.max_delete_floor and ratio > limits.max_delete_ratio:
        return f"{going} of {doomed.owned} owned keys would go, more than {limits.max_delete_ratio}"
    return ""
