"""Access and refresh tokens: issued in pairs, rotated, revoked (reference: control-plane 3)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.accounts import conf
from apps.accounts.domain import access_tokens
from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.domain.opaque import hashed, new_opaque_token
from apps.accounts.domain.principal import Principal
from apps.accounts.models import RefreshFamily, RefreshToken, RevokedToken, UiSession, User
from apps.accounts.selectors import forget_standing
from apps.streams.api import LostRace, unit_of_work
from kernel.clock import now


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPair:
    """What a sign-in answers; the only time these two tokens are seen."""

    token: str
    expires_at: datetime
    refresh_token: str
    refresh_expires_at: datetime
    user: User


@unit_of_work
def issue_tokens(user: User, *, provider: str = "password") -> TokenPair:
    """Begin a family of refresh tokens."""
    family = RefreshFamily.objects.create(
        user=user, provider=provider, expires_at=now() + conf.refresh_life()
    )
    return _next_pair(family)


def refresh_tokens(refresh_token: str) -> TokenPair:
    """Exchange a refresh token for a new pair; the old access token counts no longer.

    Raises Unauthenticated: refresh_invalid, or refresh_reused when it was exchanged before, which
    revokes all that descends from the same sign-in.
    """
    token_hash = hashed(refresh_token)
    pair = _rotate(token_hash)
    row = RefreshToken.objects.select_related("family").get(token_hash=token_hash)
    forget_standing(row.family.user_id, row.access_jti)
    if pair is None:
        _forget_family(row.family)
        raise Unauthenticated("the refresh token was used before", code="refresh_reused")
    return pair


def revoke_credential(principal: Principal) -> None:
    """Sign out: this access token and its family, or this UI session."""
    if principal.session_hash:
        UiSession.objects.filter(key_hash=principal.session_hash).delete()
        return
    _revoke_access_token(principal.token_jti, principal.expires_at)
    forget_standing(principal.user_id, principal.token_jti)


def revoke_everything(user_id: UUID) -> None:
    """Sign a user out of every browser and every client."""
    _revoke_families(user_id)
    UiSession.objects.filter(user_id=user_id).delete()
    for family in RefreshFamily.objects.filter(user_id=user_id):
        _forget_family(family)


@unit_of_work
def _rotate(token_hash: str) -> TokenPair | None:
    """None when the token was used before: what is revoked then must be committed."""
    row = (
        RefreshToken.objects.select_related("family__user__workspace")
        .filter(token_hash=token_hash)
        .first()
    )
    if row is None:
        raise _refresh_invalid()
    if row.used_at is not None:
        _revoke_family(row.family)
        return None
    if row.expires_at <= now() or not row.family.user.is_active:
        raise _refresh_invalid()
    _take(row)
    _revoke(row.access_jti, row.access_expires_at)
    return _next_pair(row.family)


def _take(row: RefreshToken) -> None:
    """Write the family first: a revocation at the same time comes before or after, not between."""
    life = now() + conf.refresh_life()
    alive = RefreshFamily.objects.filter(pk=row.family_id, revoked_at=None)
    if not alive.update(expires_at=life):
        raise _refresh_invalid()
    if not RefreshToken.objects.filter(pk=row.pk, used_at=None).update(used_at=now()):
        raise LostRace


def _next_pair(family: RefreshFamily) -> TokenPair:
    issued = now().replace(microsecond=0)  # a JWT counts in seconds: what is told is what holds
    refresh_token, jti = new_opaque_token(), str(uuid.uuid4())
    row = RefreshToken.objects.create(
        family=family,
        token_hash=hashed(refresh_token),
        access_jti=jti,
        created_at=issued,
        access_expires_at=issued + conf.access_life(),
        expires_at=issued + conf.refresh_life(),
    )
    return TokenPair(
        token=_access_token(family, row),
        expires_at=row.access_expires_at,
        refresh_token=refresh_token,
        refresh_expires_at=row.expires_at,
        user=family.user,
    )


def _access_token(family: RefreshFamily, row: RefreshToken) -> str:
    claims = {
        "sub": str(family.user_id),
        "jti": row.access_jti,
        "iat": int(row.created_at.timestamp()),
        "exp": int(row.access_expires_at.timestamp()),
        "workspaceId": str(family.user.workspace_id),
        "isAdmin": family.user.is_admin,
        "provider": family.provider,
    }
    return access_tokens.signed(claims, conf.jwt_secret())


@unit_of_work
def _revoke_access_token(jti: str, expires_at: datetime) -> None:
    row = RefreshToken.objects.select_related("family").filter(access_jti=jti).first()
    if row is not None:
        _revoke_family(row.family)
    _revoke(jti, expires_at)


@unit_of_work
def _revoke_families(user_id: UUID) -> None:
    for family in RefreshFamily.objects.filter(user_id=user_id, revoked_at=None):
        _revoke_family(family)


def _revoke_family(family: RefreshFamily) -> None:
    """With the access token of its youngest member; the older ones went with their rotation."""
    RefreshFamily.objects.filter(pk=family.pk, revoked_at=None).update(revoked_at=now())
    for token in RefreshToken.objects.filter(family=family, used_at=None):
        _revoke(token.access_jti, token.access_expires_at)


def _revoke(jti: str, expires_at: datetime) -> None:
    RevokedToken.objects.get_or_create(jti=jti, defaults={"expires_at": expires_at + conf.LEEWAY})


def _forget_family(family: RefreshFamily) -> None:
    jtis = RefreshToken.objects.filter(family=family).values_list("access_jti", flat=True)
    forget_standing(family.user_id, *jtis)


def _refresh_invalid() -> Unauthenticated:
    return Unauthenticated("the refresh token is not valid", code="refresh_invalid")
