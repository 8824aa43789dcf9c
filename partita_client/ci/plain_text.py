"""Text of servers and suites, made harmless for logs, pages and XML."""

from __future__ import annotations

import re
from typing import Final

_COLOR: Final = re.compile("\x1b\\[[0-9;:?]*[A-Za-z]")
# control characters, marks that turn the direction of text, ends of lines that few know, and halves
# of letters, which no encoding has; tabs and ends of lines stay
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def plain_text(text: object) -> str:
    """Return text that drives no terminal, hides nothing and can be written anywhere."""
    return _UNPRINTABLE.sub("", _COLOR.sub("", str(text)))


def plain_line(text: object) -> str:
    """Return the same in one line."""
    return " ".join(plain_text(text).split())


def cut_text(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
