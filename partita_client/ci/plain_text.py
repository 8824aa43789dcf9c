"""Text of servers and suites, made harmless for logs, pages and XML."""

from __future__ import annotations

import re
from typing import Final

from partita_client.unprintable import UNPRINTABLE

_COLOR: Final = re.compile("\x1b\\[[0-9;:?]*[A-Za-z]")


def plain_text(text: object) -> str:
    """Return text that drives no terminal, hides nothing and can be written anywhere."""
    return UNPRINTABLE.sub("", _COLOR.sub("", str(text)))


def plain_line(text: object) -> str:
    """Return the same in one line."""
    return " ".join(plain_text(text).split())


def cut_text(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
