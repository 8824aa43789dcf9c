"""Access tokens: JWT with HS256 and nothing else (RFC 7519; reference: control-plane 3)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import jwt

from apps.accounts.domain.errors import Unauthenticated

ISSUER: Final = "partita"
AUDIENCE: Final = "partita.user.access"
_ALGORITHM: Final = "HS256"
_MAX_LENGTH: Final = 8192
_REQUIRED: Final = ["iss", "aud", "sub", "jti", "iat", "exp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessClaims:
    """What a token says that is worth believing; whether it still counts is the store's matter."""

    user_id: UUID
    jti: str
    expires_at: datetime


def key_id(secret: str) -> str:
    """First 8 hex digits of the secret's SHA-256."""
    return hashlib.sha256(secret.encode()).hexdigest()[:8]


def signed(claims: dict[str, Any], secret: str) -> str:
    """`claims` with issuer and audience added, signed."""
    payload = {"iss": ISSUER, "aud": AUDIENCE, **claims}
    return jwt.encode(payload, secret, algorithm=_ALGORITHM, headers={"kid": key_id(secret)})


def verified(token: str, secrets: Sequence[str], *, leeway: timedelta) -> AccessClaims:
    """Check signature, issuer, audience and times. Raises Unauthenticated."""
    try:
        return _claims(_decoded(token, secrets, leeway))
    except jwt.ExpiredSignatureError:
        raise Unauthenticated("The access token has expired", code="token_expired") from None
    except (jwt.PyJWTError, ValueError, OverflowError, RecursionError):
        raise Unauthenticated("The access token is not valid", code="token_invalid") from None


def _decoded(token: str, secrets: Sequence[str], leeway: timedelta) -> dict[str, Any]:
    if len(token) > _MAX_LENGTH:
        raise jwt.DecodeError("too long")
    by_key_id = {key_id(secret): secret for secret in secrets}
    secret = by_key_id.get(str(jwt.get_unverified_header(token).get("kid")))
    if secret is None:
        raise jwt.InvalidKeyError("unknown kid")
    return jwt.decode(
        token,
        secret,
        algorithms=[_ALGORITHM],
        issuer=ISSUER,
        audience=AUDIENCE,
        leeway=leeway,
        options={"require": _REQUIRED},
    )


def _claims(payload: dict[str, Any]) -> AccessClaims:
    return AccessClaims(
        user_id=UUID(payload["sub"]),
        jti=payload["jti"],
        expires_at=datetime.fromtimestamp(int(payload["exp"]), UTC),
    )
