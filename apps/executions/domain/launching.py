"""What a caller asks for when launching a suite (reference: control-plane 11.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernel.errors import PlatformError


class QueueFull(PlatformError):
    code = "queue_full"


class IdempotencyKeyReused(PlatformError):
    """The key was used before, with another body."""

    code = "idempotency_key_reused"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """`backend`: an id, or empty or `auto`; `trigger`: Manual, CI or API."""

    suite_id: str
    profile: str = ""
    backend: str = ""
    keep_alive_ms: int = 0
    trigger: str = "Manual"
    author: str = ""
    commit: str = ""
    branch: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """`scope` names principal, method, path and key; `body` is the request body as sent."""

    principal: str
    method: str
    path: str
    key: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """`replayed`: the answer to an earlier request with the same Idempotency-Key."""

    summary: dict[str, Any]
    replayed: bool = False
