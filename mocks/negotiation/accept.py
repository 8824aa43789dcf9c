"""`Accept`: which of several media types a caller likes best (RFC 9110, 12.5.1).

best_media_type("text/*;q=0.5, application/json", ("text/plain", "application/json"))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mocks.negotiation.header_lists import MAX_TEXT, split_list, split_parameter

ANY: Final = ("", "*/*")  # headers that leave the choice
_CHARSET: Final = "charset"


@dataclass(frozen=True, slots=True)
class MediaRange:
    """A media type or, with `*`, several; `quality` is from 0 to 1."""

    type: str
    subtype: str
    parameters: frozenset[tuple[str, str]]
    quality: float = 1.0

    def covers(self, offered: MediaRange) -> bool:
        """Return whether an offered type, which may be a range as well, is among these."""
        pairs = ((self.type, offered.type), (self.subtype, offered.subtype))
        return all(one == other or "*" in (one, other) for one, other in pairs)

    def rank(self, offered: MediaRange) -> int:
        """Return how specific the range is for a type that it covers; below 0: for a likeness."""
        if self.type == "*":
            return 0
        if self.subtype == "*":
            return 1
        own = {each for each in self.parameters if each[0] != _CHARSET}
        if not own <= offered.parameters:
            return -1  # as `;odata.metadata=minimal`: still better than no answer
        return 2 + len(own)


@lru_cache(maxsize=256)
def parse_media_types(text: str) -> tuple[MediaRange, ...]:
    """Return the ranges of an Accept header in their order, without what is none."""
    return tuple(_ranges(text))


def _ranges(text: str) -> Iterator[MediaRange]:
    for each in split_list(text, ","):
        name, *parameters = split_list(each, ";")
        type_, slash, subtype = name.lower().partition("/")
        if name == "*":  # as some clients of Java write it
            type_, slash, subtype = "*", "/", "*"
        type_, subtype = type_.strip(), subtype.strip()
        if not (slash and type_ and subtype) or (type_ == "*" and subtype != "*"):
            continue
        quality, own = 1.0, set()
        for name, value in map(split_parameter, parameters):
            if name == "q":
                quality = _quality(value)
                break  # what follows says something else
            own.add((name, value.lower()))
        yield MediaRange(type_, subtype, frozenset(own), quality)


def _quality(text: str) -> float:
    """Return a weight from 0 to 1; what is not a number is not accepted."""
    try:
        found = float(text[:10])
    except ValueError:
        return 0.0
    return min(found, 1.0) if found > 0 else 0.0


def best_media_type(accept: str, offered: tuple[str, ...]) -> str | None:
    """Return the offered type that suits best, None if none does.

    Of equals the one that the caller names more exactly, then first, then the first one offered.
    A header without any range leaves the choice.
    """
    return _best(accept[:MAX_TEXT], offered)


@lru_cache(maxsize=512)
def _best(accept: str, offered: tuple[str, ...]) -> str | None:
    wanted = parse_media_types(accept)
    if not wanted:
        return next(iter(offered), None)
    best: tuple[float, int, int] | None = None
    chosen: str | None = None
    for each in offered:
        (own,) = parse_media_types(each)[:1] or (_UNKNOWN,)
        ranks = [
            (wish.rank(own), -number, wish.quality)
            for number, wish in enumerate(wanted)
            if wish.covers(own)
        ]
        if not ranks:
            continue
        specificity, number, quality = max(ranks)
        if quality and (best is None or (quality, specificity, number) > best):
            best, chosen = (quality, specificity, number), each
    return chosen


_UNKNOWN: Final = MediaRange("", "", frozenset())
