"""Stream tickets: one-time credentials for a browser's EventSource, which cannot send headers."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from apps.accounts import conf
from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.tokens import hash_token, new_opaque_token
from apps.accounts.models import StreamTicket
from apps.accounts.selectors import is_credential_alive
from kernel.clock import now
from kernel.errors import FieldError, InvalidInput

# The routes that accept `?token=` (reference: control-plane 3).
_STREAMING: Final = re.compile(
    r"/api/v1/(?:executions/[^/]+/(?:events|logs|probes|repeats/[^/]+/logs)|engine/overview/stream|sandboxes/events|streams)"
    r"|/ws/(?:executions|shells)/[^/]+"
)


def is_streaming_path(path: str) -> bool:
    return _STREAMING.fullmatch(path) is not None


def issue_ticket(principal: Principal, path: str = "") -> tuple[str, datetime]:
    """Create a ticket for one connection to `path`, or to any stream; return it with its end.

    Raise Forbidden (session_required), and InvalidInput when `path` is not a streaming route.
    """
    principal.require_session()
    if path and not is_streaming_path(path):
        error = FieldError(
            pointer="/path", code="invalid_value", detail="must be the path of a streaming route"
        )
        raise InvalidInput(f"path {error.detail}", errors=[error])
    ticket, expires_at = new_opaque_token(), now() + conf.STREAM_TICKET_LIFE
    StreamTicket.objects.create(
        user_id=principal.user_id,
        ticket_hash=hash_token(ticket),
        path=path,
        token_jti=principal.token_jti,
        session_hash=principal.session_hash,
        credential_expires_at=principal.expires_at,
        expires_at=expires_at,
    )
    return ticket, expires_at


def redeem_ticket(ticket: str, path: str) -> StreamTicket:
    """Use up a ticket that was issued for `path` or for any stream.

    Raise Unauthenticated (ticket_invalid), also when the issuer's credential has ended.
    """
    live = StreamTicket.objects.alive().filter(
        ticket_hash=hash_token(ticket), path__in=["", path], used_at=None
    )
    row = live.first()
    if (
        row is None
        or not live.update(used_at=now())  # decides between two concurrent calls
        or not is_credential_alive(row.token_jti, row.session_hash)
    ):
        raise Unauthenticated("The ticket is not valid", code="ticket_invalid")
    return row
