"""Keys of digests and journals, derived from Django's SECRET_KEY and its fallbacks."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sync_stack.orchestrator import conf

KEY_BYTES: Final = 32
ID_LENGTH: Final = 16


def digest_key() -> bytes:
    return _derive(conf.secret_keys()[0], "partita/digest")


def digest_key_id() -> str:
    """Return the id of the digest key."""
    return key_id(digest_key())


def digest_key_of(name: str) -> bytes | None:
    """Return the key with that id, also of a fallback secret; None if it is unknown."""
    keys = (_derive(secret, "partita/digest") for secret in conf.secret_keys())
    return next((key for key in keys if key_id(key) == name), None)


def journal_keys() -> tuple[bytes, ...]:
    """Return the keys of journals: the first one encrypts, all of them decrypt."""
    return tuple(_derive(secret, "partita/journal") for secret in conf.secret_keys())


def key_id(key: bytes) -> str:
    return hashlib.sha256(b"partita/key-id" + key).hexdigest()[:ID_LENGTH]


@lru_cache(maxsize=32)
def _derive(secret: str, label: str) -> bytes:
    kdf = HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=label.encode())
    return kdf.derive(secret.encode())
