"""The identity of a delivery: its replay records and its idempotency key.

(reference: sync-stack 2.5)
"""

from __future__ import annotations

import hashlib
import uuid
from typing import NamedTuple


class ReplayKeys(NamedTuple):
    """Names of the records that a delivery claims, within its `scope` (platform and segment)."""

    scope: str
    names: tuple[str, ...]

    def redis_keys(self) -> tuple[str, ...]:
        """Return the Redis keys of a scope, which share one hash slot."""
        prefix = f"partita:gw:replay:{{{self.scope}}}:"
        return tuple([prefix + name for name in self.names])


class Delivery(NamedTuple):
    """What identifies a delivery; `delivery_id` may be empty."""

    platform: str
    segment: str
    event: str
    delivery_id: str
    body: bytes

    def replay_keys(self, *, id_is_signed: bool) -> ReplayKeys:
        """The id's record, and the body's where anyone could put another id on the same body."""
        names = []
        if self.delivery_id:
            names.append(f"id:{hashlib.sha256(self.delivery_id.encode()).hexdigest()}")
        if not (self.delivery_id and id_is_signed):
            digest = hashlib.sha256(self.event.encode() + b"\n")
            digest.update(self.body)
            names.append(f"body:{digest.hexdigest()}")
        return ReplayKeys(scope=f"{self.platform}:{self.segment}", names=tuple(names))

    def idempotency_key(self, payload_sha256: str) -> str:
        """Equal for a redelivery under the same id; without an id, of this delivery only."""
        delivery = self.delivery_id or str(uuid.uuid4())
        parts = ("v1", self.platform, self.segment, self.event, delivery, payload_sha256)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
