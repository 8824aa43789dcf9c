"""Stream tickets: a browser's EventSource cannot send headers, so it brings one of these."""

from __future__ import annotations

from datetime import datetime

from apps.accounts import conf
from apps.accounts.domain.opaque import hashed, new_opaque_token
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.streaming_paths import is_streaming_path
from apps.accounts.models import StreamTicket
from kernel.clock import now
from kernel.errors import FieldError, InvalidInput


def issue_ticket(principal: Principal, path: str = "") -> tuple[str, datetime]:
    """Make a ticket for one connection to `path`, or to any stream; (ticket, its end).

    Raises InvalidInput when `path` does not stream.
    """
    if path and not is_streaming_path(path):
        error = FieldError(
            pointer="/path", code="invalid_value", detail="must be the path of a streaming route"
        )
        raise InvalidInput(f"path {error.detail}", errors=[error])
    ticket, expires_at = new_opaque_token(), now() + conf.STREAM_TICKET_LIFE
    StreamTicket.objects.create(
        user_id=principal.user_id,
        ticket_hash=hashed(ticket),
        path=path,
        token_jti=principal.token_jti,
        session_hash=principal.session_hash,
        credential_expires_at=principal.expires_at,
        expires_at=expires_at,
    )
    return ticket, expires_at
