"""Encryption at rest of small texts, with keys that can be replaced (Fernet, AES-128 and HMAC)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


class Undecryptable(ValueError):
    """None of the keys has encrypted this."""


def encrypt(text: str, keys: Sequence[str]) -> str:
    """Encrypt with the first key."""
    return _cipher(keys).encrypt(text.encode()).decode()


def decrypt(ciphertext: str, keys: Sequence[str]) -> str:
    """Decrypt with whichever key fits; raise Undecryptable."""
    from cryptography.fernet import InvalidToken

    try:
        return _cipher(keys).decrypt(ciphertext.encode()).decode()
    except InvalidToken:
        raise Undecryptable("no known key has encrypted this") from None


def _cipher(keys: Sequence[str]) -> MultiFernet:
    from cryptography.fernet import Fernet, MultiFernet  # a tenth of the start of any command

    digests = (hashlib.sha256(b"partita.fernet\0" + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
