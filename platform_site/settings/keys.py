"""JWT_SECRET, and the keys derived from it: HKDF-SHA256 (RFC 5869), one label each."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

from django.core.exceptions import ImproperlyConfigured

MIN_SECRET_BYTES = 32
_HASH_BYTES = 32


def derived_key(secret: str, label: str, *, size: int = 32) -> str:
    """Return `size` bytes as URL-safe base64; empty for an empty secret, which start-up refuses.

    Every command derives keys, and to import a library for it takes longer than these lines.
    """
    if not secret:
        return ""
    extracted = hmac.digest(bytes(_HASH_BYTES), secret.encode(), hashlib.sha256)
    key, block = b"", b""
    for counter in range(1, -(-size // _HASH_BYTES) + 1):
        block = hmac.digest(
            extracted, block + f"partita:{label}".encode() + bytes([counter]), hashlib.sha256
        )
        key += block
    return base64.urlsafe_b64encode(key[:size]).decode()


def encryption_keys(
    jwt_secrets: Sequence[str], *, key: str, previous: Sequence[str]
) -> dict[str, str]:
    """Return each key that decrypts with the variable that it comes from; the first one encrypts.

    `jwt_secrets`: the current one first. An entry of `previous` is a former
    SETTINGS_ENCRYPTION_KEY, or a former JWT_SECRET from which the key was derived.
    """
    label, list_name = "settings-encryption", "SETTINGS_PREVIOUS_ENCRYPTION_KEYS"
    found = [(key, "SETTINGS_ENCRYPTION_KEY"), (derived_key(jwt_secrets[0], label), "JWT_SECRET")]
    for number, entry in enumerate(previous, start=1):
        origin = f"{list_name}[{number}]"
        found += [(entry, origin), (derived_key(entry, label), f"{origin}, as a JWT_SECRET")]
    for number, secret in enumerate(jwt_secrets[1:], start=1):
        found.append((derived_key(secret, label), f"JWT_PREVIOUS_SECRETS[{number}]"))
    origins: dict[str, str] = {}
    for each, origin in found:
        if each:
            origins.setdefault(each, origin)
    return origins


def require_jwt_secret(secret: str) -> None:
    """Raise ImproperlyConfigured without a secret that the control plane can start with."""
    if len(secret.encode()) < MIN_SECRET_BYTES or secret == "change-me":
        raise ImproperlyConfigured(
            f"JWT_SECRET must be set to at least {MIN_SECRET_BYTES} bytes, for example the output "
            "of: python -c 'import secrets; print(secrets.token_urlsafe(48))'"
        )
