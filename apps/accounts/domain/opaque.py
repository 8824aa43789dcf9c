"""Opaque tokens: given out once, stored as a hash."""

from __future__ import annotations

import hashlib
import secrets


def new_opaque_token() -> str:
    """43 URL-safe characters, 256 bits."""
    return secrets.token_urlsafe(32)


def hashed(token: str) -> str:
    """SHA-256 in hex. Enough for random tokens; passwords go through a slow hash instead."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
