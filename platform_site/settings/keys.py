"""Keys derived from one secret: HKDF-SHA256 (RFC 5869), one label each."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MIN_SECRET_BYTES = 32


def derived_key(secret: str, label: str, *, size: int = 32) -> str:
    """`size` bytes as URL-safe base64; empty for an empty secret, which the start-up refuses."""
    if not secret:
        return ""
    kdf = HKDF(algorithm=hashes.SHA256(), length=size, salt=None, info=f"partita:{label}".encode())
    return base64.urlsafe_b64encode(kdf.derive(secret.encode())).decode()
