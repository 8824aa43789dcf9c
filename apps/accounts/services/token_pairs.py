"""Access and refresh tokens: issued in pairs, rotated, revoked (reference: control-plane 3)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.accounts import conf
from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.tokens import hash_token, new_opaque_token, sign_access_token
from apps.accounts.models import (
    ApiToken,
    CiSession,
    DeviceAuthorization,
    ExchangeCode,
    PasswordReset,
    RefreshFamily,
    RefreshToken,
    RevokedToken,
    StreamTicket,
    UiSession,
    User,
)
from apps.accounts.selectors import clear_cached
from apps.accounts.services.ci_sessions import end_ci_session
from apps.streams.api import LostRace, unit_of_work
from kernel.clock import now


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPair:
    """The tokens of a sign-in or refresh in plain text, which the store does not keep."""

    token: str
    expires_at: datetime
    refresh_token: str
    refresh_expires_at: datetime
    user: User


@unit_of_work
def issue_tokens(
    user: User, *, provider: str = "password", groups: Sequence[str] = ()
) -> TokenPair:
    """Start a family of refresh tokens; its access tokens name the provider and the groups.

    Raise Unauthenticated (invalid_credentials) if the account was disabled or its password changed
    since `user` was read: what that change ended does not begin again.
    """
    unchanged = User.objects.filter(pk=user.pk, password=user.password, is_active=True)
    if not unchanged.update(last_login=now()):
        raise Unauthenticated("the account has changed; sign in again", code="invalid_credentials")
    family = RefreshFamily.objects.create(
        user=user,
        provider=provider,
        groups=list(groups),
        expires_at=now() + conf.refresh_life(),
    )
    return _next_pair(family)


def refresh_tokens(refresh_token: str) -> TokenPair:
    """Exchange a refresh token for a new pair and revoke the old access token.

    Raise Unauthenticated: refresh_invalid, or refresh_reused when it was exchanged before, which
    revokes the whole family.
    """
    token_hash = hash_token(refresh_token)
    pair = _rotate(token_hash)
    row = RefreshToken.objects.select_related("family").get(token_hash=token_hash)
    clear_cached(row.family.user_id, row.access_jti)
    if pair is None:
        _clear_cached_family(row.family)
        raise Unauthenticated("the refresh token was used before", code="refresh_reused")
    return pair


def revoke_credential(principal: Principal) -> None:
    """Sign out: revoke this access token and its family, or end this UI or CI session.

    Raise Forbidden (session_required) for an API token, which is revoked by its id.
    """
    if principal.ci_session_hash:
        end_ci_session(principal.ci_session_hash)
        return
    principal.require_session()
    if principal.session_hash:
        UiSession.objects.filter(key_hash=principal.session_hash).delete()
        return
    _revoke_access_token(principal.token_jti, principal.expires_at)
    clear_cached(principal.user_id, principal.token_jti)


def revoke_everything(user_id: UUID) -> None:
    """Sign a user out of every browser and client."""
    _revoke_families(user_id)
    UiSession.objects.filter(user_id=user_id).delete()
    ApiToken.objects.filter(user_id=user_id).delete()
    for family in RefreshFamily.objects.filter(user_id=user_id):
        _clear_cached_family(family)


@unit_of_work
def end_every_sign_in() -> None:
    """Sign everybody out, and void what was sent or handed out to sign in; API tokens stay.

    CI sessions stay as rows, so that no job's token is used twice, and end.

    For a store that came back older: what was revoked since is not known to it.
    """
    for family in RefreshFamily.objects.alive().filter(revoked_at=None):
        _revoke_family(family)
    CiSession.objects.filter(kept_until__gt=now()).update(ended_at=now())
    for model in (UiSession, StreamTicket, ExchangeCode, PasswordReset, DeviceAuthorization):
        model.objects.all().delete()


def end_family(family: RefreshFamily) -> None:
    """Revoke the tokens of one sign-in."""
    _end_family(family)
    _clear_cached_family(family)


@unit_of_work
def _end_family(family: RefreshFamily) -> None:
    _revoke_family(family)


@unit_of_work
def _rotate(token_hash: str) -> TokenPair | None:
    """Return the next pair, or None for a reused token, whose revocation must be committed."""
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
    _mark_used(row)
    _revoke(row.access_jti, row.access_expires_at)
    return _next_pair(row.family)


def _mark_used(row: RefreshToken) -> None:
    """Update the family first, so that a concurrent revocation comes before or after."""
    alive = RefreshFamily.objects.filter(pk=row.family_id, revoked_at=None)
    if not alive.update(expires_at=now() + conf.refresh_life()):
        raise _refresh_invalid()
    if not RefreshToken.objects.filter(pk=row.pk, used_at=None).update(used_at=now()):
        raise LostRace


def _next_pair(family: RefreshFamily) -> TokenPair:
    issued = now().replace(microsecond=0)  # a JWT counts in seconds
    refresh_token, jti = new_opaque_token(), str(uuid.uuid4())
    row = RefreshToken.objects.create(
        family=family,
        token_hash=hash_token(refresh_token),
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
        **({"groups": family.groups} if family.groups else {}),
    }
    return sign_access_token(claims, conf.jwt_secret())


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
    """Revoke the family and its current access token; the older ones are revoked already."""
    RefreshFamily.objects.filter(pk=family.pk, revoked_at=None).update(revoked_at=now())
    for token in RefreshToken.objects.filter(family=family, used_at=None):
        _revoke(token.access_jti, token.access_expires_at)


def _revoke(jti: str, expires_at: datetime) -> None:
    RevokedToken.objects.get_or_create(jti=jti, defaults={"expires_at": expires_at + conf.LEEWAY})


def _clear_cached_family(family: RefreshFamily) -> None:
    jtis = RefreshToken.objects.filter(family=family).values_list("access_jti", flat=True)
    clear_cached(family.user_id, *jtis)


def _refresh_invalid() -> Unauthenticated:
    return Unauthenticated("the refresh token is not valid", code="refresh_invalid")
