"""Idempotency keys: the answer to a request, kept 24 h with what it made.

(reference: control-plane 1.2)
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any, Final

from apps.executions.domain.launching import Idempotency, IdempotencyKeyReused, Launched
from apps.executions.models import IdempotencyKey
from kernel import clock

KEPT: Final = timedelta(hours=24)


def replayed(idempotency: Idempotency | None) -> Launched | None:
    """The stored answer to the same request. Raises IdempotencyKeyReused for another body."""
    if idempotency is None:
        return None
    since = clock.now() - KEPT
    row = IdempotencyKey.objects.filter(scope=_scope(idempotency), created_at__gt=since).first()
    if row is None:
        return None
    if row.body_sha256 != _sha256(idempotency.body):
        raise IdempotencyKeyReused("this Idempotency-Key was used with another request body")
    return Launched(summary=row.answer, replayed=True)


def remember(idempotency: Idempotency, run_id: str, answer: dict[str, Any]) -> None:
    """Within the unit of work that makes the run. Raises IntegrityError when another was first."""
    scope = _scope(idempotency)
    IdempotencyKey.objects.filter(scope=scope, created_at__lte=clock.now() - KEPT).delete()
    IdempotencyKey.objects.create(
        scope=scope,
        body_sha256=_sha256(idempotency.body),
        execution_run_id=run_id,
        answer=answer,
        created_at=clock.now(),
    )


def forget_old_keys() -> None:
    IdempotencyKey.objects.filter(created_at__lte=clock.now() - KEPT).delete()


def _scope(idempotency: Idempotency) -> str:
    parts = (idempotency.principal, idempotency.method, idempotency.path, idempotency.key)
    return _sha256("\0".join(parts).encode())


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
