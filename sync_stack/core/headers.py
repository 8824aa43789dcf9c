"""Headers of a request: names in any case, and whether a name came more than once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


class Headers:
    """Values as text (Latin-1), by lower-case name."""

    __slots__ = ("_first", "_repeated")

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        first: dict[str, str] = {}
        repeated: dict[str, tuple[str, ...]] = {}
        for name, value in raw:
            low, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
            if low in first:
                repeated[low] = (*repeated.get(low, (first[low],)), text)
            else:
                first[low] = text
        self._first = first
        self._repeated = repeated

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._first

    def get(self, name: str) -> str:
        """Return the first value; empty when absent."""
        return self._first.get(name.lower(), "")

    def single(self, name: str) -> str | None:
        """The value, or None when the name is absent or came more than once."""
        low = name.lower()
        return None if low in self._repeated else self._first.get(low)

    def only(self, *names: str) -> dict[str, str]:
        """The first values of those of `names` that are there, by lower-case name."""
        known = self._first
        return {low: known[low] for name in names if (low := name.lower()) in known}

    def all(self, name: str) -> tuple[str, ...]:
        low = name.lower()
        if low in self._repeated:
            return self._repeated[low]
        return (self._first[low],) if low in self._first else ()

    def first_present(self, names: Iterable[str]) -> str | None:
        """The first of `names` that is among the headers."""
        for name in names:
            if name.lower() in self._first:
                return name
        return None


def read_retry_after(text: str, *, now: datetime) -> float | None:
    """Return the seconds that a Retry-After asks for: a number, or an HTTP date (RFC 9110, 10.2.3).

    None for anything else; 0 for a time that is over.
    """
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (until.astimezone(UTC) - now).total_seconds())
