"""The bounds of mock state (reference: control-plane 18.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kernel.errors import PlatformError

MAX_RECORD_BYTES: Final = 64 * 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLimits:
    """Beyond `records` and `bytes` of a space, the least recently changed record goes first.

    A space that nobody asked for `idle_s` is forgotten. In the memory of a process, so are the
    least recently changed spaces beyond `spaces` and `total_bytes`.
    """

    records: int = 10_000
    bytes: int = 64 * 2**20
    spaces: int = 10_000
    total_bytes: int = 256 * 2**20
    idle_s: float = 24 * 3600.0


class RecordTooLarge(PlatformError):
    code = "payload_too_large"


def record_size(key: str, fields: Mapping[str, str]) -> int:
    """Return the size of a record in bytes; raise RecordTooLarge."""
    size = len(key) + sum(len(name) + len(value) for name, value in fields.items())
    if size * 4 > MAX_RECORD_BYTES:  # characters may have four bytes
        size = len(key.encode(errors="replace")) + sum(
            len(name.encode(errors="replace")) + len(value.encode(errors="replace"))
            for name, value in fields.items()
        )
        if size > MAX_RECORD_BYTES:
            raise RecordTooLarge(f"a state record has at most {MAX_RECORD_BYTES} bytes")
    return size
