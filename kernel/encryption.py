"""Encryption at rest of small texts, with keys that can be replaced (Fernet, AES-128 and HMAC)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernel.errors import PlatformError

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


class Undecryptable(ValueError):
    """None of the keys has encrypted this."""


class NoKey(PlatformError):
    """Nothing can be encrypted: neither a key nor a secret to derive one from is set."""


def encrypt(text: str, keys: Sequence[str]) -> str:
    """Encrypt with the first key; raise NoKey without one."""
    if not any(keys):
        raise NoKey("no encryption key: set JWT_SECRET or SETTINGS_ENCRYPTION_KEY")
    return _cipher(keys).encrypt(text.encode()).decode()


def decrypt(ciphertext: str, keys: Sequence[str]) -> str:
    """Decrypt with whichever key fits; raise Undecryptable."""
    from cryptography.fernet import InvalidToken

    if not any(keys):
        raise Undecryptable("there is no key")
    try:
        return _cipher(keys).decrypt(ciphertext.encode()).decode()
    except InvalidToken:
        raise Undecryptable("no known key has encrypted this") from None


def fitting_key(ciphertext: str, keys: Sequence[str]) -> str | None:
    """Return the first of the keys that decrypts this, or None."""
    for key in keys:
        try:
            decrypt(ciphertext, [key])
        except Undecryptable:
            continue
        return key
    return None


def fingerprint(key: str) -> str:
    """Return 8 hex digits that name a key and do not show it."""
    return hashlib.sha256(b"partita.fingerprint\0" + key.encode()).hexdigest()[:8]


def _cipher(keys: Sequence[str]) -> MultiFernet:
    from cryptography.fernet import Fernet, MultiFernet  # a tenth of the start of any command

    set_keys = filter(None, keys)
    digests = (hashlib.sha256(b"partita.fernet\0" + key.encode()).digest() for key in set_keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
