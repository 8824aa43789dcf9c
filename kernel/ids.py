"""Identifiers and the two text forms derived from names."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
import uuid

IDENTIFIER = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
NAME_LIMIT = 63  # of a label of DNS (RFC 1035, 2.3.4), which names of containers are
_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z")


def new_uuid() -> uuid.UUID:
    return uuid.uuid4()


def new_uuid7() -> str:
    """A UUIDv7 as text: ids made in a later millisecond sort later."""
    instant = time.time_ns() // 1_000_000
    number = (instant << 80) | (7 << 76) | (2 << 62)
    number |= (secrets.randbits(12) << 64) | secrets.randbits(62)
    return str(uuid.UUID(int=number))


def new_execution_id() -> str:
    """`run-` and 12 lower-case hex digits."""
    return f"run-{secrets.token_hex(6)}"


def new_job_id() -> str:
    """`job_` and 22 URL-safe characters (128 bits)."""
    return f"job_{secrets.token_urlsafe(16)}"


def is_identifier(text: str) -> bool:
    return IDENTIFIER.match(text) is not None


def is_env_name(text: str) -> bool:
    """Whether an environment variable may be called that."""
    return _ENV_NAME.match(text) is not None


def slug(text: str) -> str:
    """Lower case, every run of other characters one `-`, trimmed: `pay/API` → `pay-api`."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def humanize(text: str) -> str:
    """Return words with capitals: `payment-api` → `Payment Api`."""
    return " ".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", text) if word)


def shorten(name: str, *, limit: int = NAME_LIMIT) -> str:
    """Return `name`; one longer than `limit` as its head, `-` and 8 hex digits of its SHA-256."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
