"""Values of a type that are drawn anew each time, for `Prefer: dynamic=true`."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from string import ascii_lowercase
from typing import Final

_WIDTH: Final = 1_000  # of a range with one end or none
_YEARS: Final = timedelta(days=3_650)
_EPOCH: Final = datetime(2020, 1, 1, tzinfo=UTC)
_USUAL_LENGTH: Final = 10


def fresh_numbers(drawn: Random, low: float, high: float, step: float) -> Iterator[float]:
    """Yield some numbers from low to high, multiples of `step` unless it is 0."""
    if math.isinf(low):
        low = 0 if math.isinf(high) or high > 0 else high - _WIDTH
    if math.isinf(high):
        high = low + _WIDTH
    for _ in range(4):
        value = drawn.uniform(low, high)
        yield round(value / step) * step if step else round(value, 2)


def fresh_text(drawn: Random, form: str, least: int, most: float) -> str:
    """Return a text of a format, of no format a word; "" for a format that is not known."""
    if form in _FORMATS:
        return _FORMATS[form](drawn)
    if form:
        return ""
    longest = int(min(most, max(least, _USUAL_LENGTH)))
    return _word(drawn, drawn.randint(min(max(least, 3), longest), longest))


def _word(drawn: Random, length: int = 6) -> str:
    return "".join(drawn.choices(ascii_lowercase, k=length))


def _moment(drawn: Random) -> datetime:
    return _EPOCH + timedelta(seconds=drawn.randrange(int(_YEARS.total_seconds())))


_FORMATS: Final[Mapping[str, Callable[[Random], str]]] = {
    "uuid": lambda drawn: str(uuid.UUID(int=drawn.getrandbits(128), version=4)),
    "date": lambda drawn: f"{_moment(drawn):%Y-%m-%d}",
    "date-time": lambda drawn: f"{_moment(drawn):%Y-%m-%dT%H:%M:%SZ}",
    "time": lambda drawn: f"{_moment(drawn):%H:%M:%SZ}",
    "email": lambda drawn: f"{_word(drawn)}@example.org",
    "hostname": lambda drawn: f"{_word(drawn)}.example.org",
    "ipv4": lambda drawn: f"192.0.2.{drawn.randrange(256)}",
    "ipv6": lambda drawn: f"2001:db8::{drawn.getrandbits(16):x}",
    "uri": lambda drawn: f"https://example.org/{_word(drawn)}",
    "url": lambda drawn: f"https://example.org/{_word(drawn)}",
    "password": lambda drawn: _word(drawn, 12),
    "int64": lambda drawn: str(drawn.getrandbits(40)),
}
