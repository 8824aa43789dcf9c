"""The audit trail: what is recorded of a request, in rows that no request waits for.

One thread writes them behind a bounded queue (reference: control-plane 2).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from apps.observability.api import mask_tokens, metrics
from apps.operations.models import AuditRecord
from kernel import clock
from kernel.background import report_error
from kernel.background_writer import BackgroundWriter, QueueLimits
from kernel.clock import rfc3339

logger = logging.getLogger("partita.system")

CAPACITY: Final = 10_000
BATCH: Final = 500
RETENTION: Final = timedelta(days=90)
_RETENTION_SWEEP_S: Final = 3600.0
_GATHER_S: Final = 0.25
_PREFIXES: Final = ("/api/", "/accounts/", "/admin/")
_FORMS: Final = frozenset(
    {
        "/sign-in",
        "/sign-up",
        "/forgot-password",
        "/reset-password",
        "/account/password",
        "/account/sign-out-everywhere",
        "/account/second-factor/begin",
        "/account/second-factor/codes",
        "/account/second-factor/confirm",
        "/account/second-factor/remove",
        "/account/sign-ins/end",
        "/account/tokens",
        "/account/tokens/revoke",
        "/device/approve",
        "/device/deny",
        "/environments/reap",
        "/environments/reap-all",
        "/settings/backends",
        "/settings/check",
        "/settings/ci",
        "/settings/general",
        "/settings/registries",
        "/settings/secrets",
        "/settings/sync",
    }
)
_MAX_PATH: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One record; `path` has no query and no token."""

    time: datetime
    request_id: str
    method: str
    route: str
    path: str
    status: int
    duration_ms: int
    remote_addr: str
    user_id: str = ""
    workspace_id: str = ""
    agent_id: str = ""
    note: str = ""

    def as_dict(self) -> dict[str, str | int]:
        """The wire form, `type` first; ids that are not known are left out."""
        who = {
            "userId": self.user_id,
            "workspaceId": self.workspace_id,
            "agentId": self.agent_id,
            "note": self.note,
        }
        known: dict[str, str | int] = {
            "type": "http.audit",
            "time": rfc3339(self.time),
            "requestId": self.request_id,
            "method": self.method,
            "route": self.route,
            "path": self.path,
            "status": self.status,
            "durationMs": self.duration_ms,
            "remoteAddr": self.remote_addr,
        }
        return known | {name: value for name, value in who.items() if value}


def is_audited(method: str, path: str) -> bool:
    """API and accounts, health twins excluded, and posts to the sign-in pages."""
    if path.startswith("/api/v1/system/"):
        return False
    return path.startswith(_PREFIXES) or (method == "POST" and path in _FORMS)


def recorded_path(path: str) -> str:
    """The path without what looks like a token, in characters that every store takes."""
    clean = path.replace("\x00", "\ufffd").encode(errors="replace").decode()
    return mask_tokens(clean)[:_MAX_PATH]


class AuditTrail:
    """`put` never blocks; what does not fit, or cannot be stored, counts as dropped."""

    def __init__(self, *, capacity: int = CAPACITY) -> None:
        self._next_sweep = 0.0
        self._writer = BackgroundWriter(
            "audit",
            self._write,
            QueueLimits(items=capacity, batch_items=BATCH, gather_s=_GATHER_S),
            after_failure=close_old_connections,
            at_end=lambda: connection.close(),  # noqa: PLW0108 - of the thread that ends
        )

    def put(self, record: Audited) -> None:
        if not self._writer.put(record):
            metrics.count("partita.audit.dropped")

    def close(self, timeout_s: float = 5.0) -> None:
        """Store what is queued and end the thread; the next `put` starts another."""
        if dropped := self._writer.close(timeout_s):
            metrics.count("partita.audit.dropped", dropped)

    def _write(self, batch: Sequence[Audited]) -> None:
        close_old_connections()
        store(batch)
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + _RETENTION_SWEEP_S
            forget_old()


def store(batch: Sequence[Audited]) -> None:
    """Write the rows; when the store refuses, they count as dropped (their lines are written)."""
    try:
        AuditRecord.objects.bulk_create(AuditRecord(**asdict(record)) for record in batch)
    except (DatabaseError, InterfaceError) as error:
        metrics.count("partita.audit.dropped", len(batch))
        logger.warning("%s audit records could not be stored: %s", len(batch), error)
        report_error()
    except Exception:
        metrics.count("partita.audit.dropped", len(batch))
        raise


def forget_old() -> None:
    """Delete the rows older than 90 days."""
    try:
        AuditRecord.objects.filter(time__lt=clock.now() - RETENTION).delete()
    except (DatabaseError, InterfaceError) as error:
        logger.warning("old audit records could not be deleted: %s", error)
        report_error()


trail: Final = AuditTrail()
