"""Where somebody is signed in: browsers, and API clients with refresh tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from apps.accounts.domain.principal import Principal
from apps.accounts.models import RefreshFamily, RefreshToken, UiSession
from apps.accounts.services.token_pairs import end_family
from apps.accounts.sessions import SIGNED_IN_FROM, SessionStore
from kernel.errors import NotFound

_MAX_SHOWN: Final = 100  # of each kind, the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """`address` and `agent` are empty for API clients, and for sessions of older releases."""

    id: UUID
    is_browser: bool
    provider: str
    address: str
    agent: str
    since: datetime
    expires_at: datetime
    is_current: bool


def sign_ins_of(principal: Principal) -> Sequence[SignIn]:
    """Return the living sign-ins of the caller, the newest first."""
    return sorted(
        [*_sessions(principal), *_families(principal)], key=lambda one: one.since, reverse=True
    )


def end_sign_in(principal: Principal, sign_in_id: UUID) -> None:
    """Sign one browser or client of the caller out; raise NotFound, Forbidden."""
    principal.require_session()
    if UiSession.objects.filter(pk=sign_in_id, user_id=principal.user_id).delete()[0]:
        return
    family = RefreshFamily.objects.filter(pk=sign_in_id, user_id=principal.user_id).first()
    if family is None:
        raise NotFound("there is no such sign-in")
    end_family(family)


def _sessions(principal: Principal) -> list[SignIn]:
    rows = UiSession.objects.alive().filter(user_id=principal.user_id)
    return [_session(row, principal) for row in rows.order_by("-created_at")[:_MAX_SHOWN]]


def _session(row: UiSession, principal: Principal) -> SignIn:
    origin = SessionStore().decode(row.data).get(SIGNED_IN_FROM, {})
    return SignIn(
        id=row.id,
        is_browser=True,
        provider="",
        address=origin.get("address", ""),
        agent=origin.get("agent", ""),
        since=row.created_at,
        expires_at=row.expires_at,
        is_current=row.key_hash == principal.session_hash,
    )


def _families(principal: Principal) -> list[SignIn]:
    rows = RefreshFamily.objects.alive().filter(user_id=principal.user_id, revoked_at=None)
    current = RefreshToken.objects.filter(access_jti=principal.token_jti).first()
    return [
        SignIn(
            id=row.id,
            is_browser=False,
            provider=row.provider,
            address="",
            agent="",
            since=row.created_at,
            expires_at=row.expires_at,
            is_current=current is not None and current.family_id == row.id,
        )
        for row in rows.order_by("-created_at")[:_MAX_SHOWN]
    ]
