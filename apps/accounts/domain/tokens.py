"""Tokens: access tokens (JWT with HS256 only, RFC 7519) and opaque random ones.

(reference: control-plane 3)
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from apps.accounts.domain.errors import Unauthenticated

ISSUER: Final = "partita"
AUDIENCE: Final = "partita.user.access"
_ALGORITHM: Final = "HS256"
_MAX_LENGTH: Final = 8192
_REQUIRED: Final = ["iss", "aud", "sub", "jti", "iat", "exp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessClaims:
    """The verified claims that the control plane uses. The store knows whether they are revoked."""

    user_id: UUID
    jti: str
    expires_at: datetime
    is_of_previous: bool = False  # signed with a secret that was replaced


def key_id(secret: str) -> str:
    """Return the first 8 hex digits of the SHA-256 of `secret`."""
    return hashlib.sha256(secret.encode()).hexdigest()[:8]


def sign_access_token(claims: dict[str, object], secret: str) -> str:
    """Return a signed token with `claims`, the issuer and the audience."""
    import jwt  # with the cryptography that it imports, a tenth of the start of any command

    payload = {"iss": ISSUER, "aud": AUDIENCE, **claims}
    return jwt.encode(payload, secret, algorithm=_ALGORITHM, headers={"kid": key_id(secret)})


def is_access_token(text: str) -> bool:
    """Return whether a text has the form of an access token of this issuer, valid or not."""
    parts = text.split(".")
    if len(parts) != 3 or len(text) > _MAX_LENGTH:  # noqa: PLR2004 - head, claims, signature
        return False
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(claims, dict) and claims.get("iss") == ISSUER


def verify_access_token(token: str, keys: Sequence[str], *, leeway: timedelta) -> AccessClaims:
    """Check signature, issuer, audience and times; raise Unauthenticated.

    The first key signs; the others were replaced. The signature of a replaced key proves nothing:
    whoever knows it can sign any claims, and the caller must know the token by other means.
    """
    import jwt

    try:
        return _claims(token, keys, leeway)
    except jwt.ExpiredSignatureError:
        raise Unauthenticated("The access token has expired", code="token_expired") from None
    except (jwt.PyJWTError, ValueError, OverflowError, RecursionError):
        raise Unauthenticated("The access token is not valid", code="token_invalid") from None


def _claims(token: str, keys: Sequence[str], leeway: timedelta) -> AccessClaims:
    import jwt

    if len(token) > _MAX_LENGTH:
        raise jwt.DecodeError("too long")
    by_key_id = {key_id(key): key for key in reversed(keys)}  # the first wins if listed twice
    key = by_key_id.get(str(jwt.get_unverified_header(token).get("kid")))
    if key is None:
        raise jwt.InvalidKeyError("unknown kid")
    payload = jwt.decode(
        token,
        key,
        algorithms=[_ALGORITHM],
        issuer=ISSUER,
        audience=AUDIENCE,
        leeway=leeway,
        options={"require": _REQUIRED},
    )
    return AccessClaims(
        user_id=UUID(payload["sub"]),
        jti=payload["jti"],
        expires_at=datetime.fromtimestamp(int(payload["exp"]), UTC),
        is_of_previous=key != keys[0],
    )


def new_opaque_token() -> str:
    """Return 43 random URL-safe characters (256 bits)."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return the SHA-256 in hex: enough for a random token, too fast for a password."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
