"""Patterns of repositories, branches, paths and keys: `*` and `?` stop at `/`, `**` crosses it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MAX_PATTERN: Final = 512
MAX_WILDCARDS: Final = 16  # what a match may cost grows with each
_PART: Final = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANING: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class BadGlob(ValueError):
    """A text that is not a pattern; the message says why."""


def check_glob(pattern: str) -> None:
    """Raises BadGlob: empty, too long, too many wildcards, white space, control characters."""
    if not pattern:
        raise BadGlob("an empty pattern matches nothing")
    if len(pattern) > MAX_PATTERN:
        raise BadGlob(f"a pattern has at most {MAX_PATTERN} characters")
    if any(char.isspace() or not char.isprintable() for char in pattern):
        raise BadGlob("a pattern holds no white space or control characters")
    if "***" in pattern:
        raise BadGlob('"***" is not a wildcard: * and ? stop at "/", ** crosses it')
    if "[" in pattern:
        raise BadGlob('"[" is not a wildcard: * and ? stop at "/", ** crosses it')
    if len(re.findall(r"\*+|\?", pattern)) > MAX_WILDCARDS:
        raise BadGlob(f"a pattern has at most {MAX_WILDCARDS} wildcards")


def is_literal(pattern: str) -> bool:
    return "*" not in pattern and "?" not in pattern


def matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    """Whether the whole text fits; `**/` also stands for no folder at all."""
    return _compile(pattern, ignore_case=ignore_case).fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _compile(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    parts = (_MEANING.get(part) or re.escape(part) for part in _PART.findall(pattern))
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if ignore_case else 0))
