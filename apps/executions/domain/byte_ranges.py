"""Byte ranges of a download (RFC 9110, 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"^bytes=\s*(\d{0,18})-(\d{0,18})\s*\Z", re.IGNORECASE)


class RangeNotSatisfiable(ValueError):
    """The range begins behind the last byte."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `first` to `last`, both included, from 0."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


def requested_range(header: str, *, size: int) -> ByteRange | None:
    """The one range that the header `Range` asks of `size` bytes; None: send everything.

    Another unit, several ranges and nonsense are ignored, as the RFC allows.
    Raises RangeNotSatisfiable.
    """
    match = _RANGE.match(header)
    if match is None or match[1] == match[2] == "":
        return None
    if not match[1]:
        return _tail(int(match[2]), size)
    first, last = int(match[1]), int(match[2] or size)
    if last < first and match[2]:
        return None
    if first >= size:
        raise RangeNotSatisfiable(f"the artifact has {size} bytes")
    return ByteRange(first, min(last, size - 1))


def _tail(length: int, size: int) -> ByteRange:
    if not length or not size:
        raise RangeNotSatisfiable(f"the artifact has {size} bytes")
    return ByteRange(max(0, size - length), size - 1)
