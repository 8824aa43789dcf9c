"""Searching log lines: what matches, in linear time whatever the pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import re2

_MAX_MEM: Final = 8 * 2**20  # of one compiled pattern: larger ones are refused
KINDS: Final = ("", "system", "output", "metric", "user")
LEVELS: Final = ("debug", "info", "warn", "error")
PATTERN_MAX_CHARACTERS: Final = 1_000


class Pattern(Protocol):
    def search(self, text: str) -> object | None: ...


class PatternInvalid(ValueError):
    """No pattern of RE2; the message says what is wrong, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """Which log lines match: a pattern in the text, and the named facts where given."""

    pattern: Pattern
    sources: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    levels: frozenset[str] = frozenset()

    def matches(self, line: Mapping[str, Any]) -> bool:
        """`line` is a log line as it goes on the wire (`source`, `kind`, `level`, `text`)."""
        return (
            (not self.sources or line["source"] in self.sources)
            and (not self.kinds or line["kind"] in self.kinds)
            and (not self.levels or line["level"] in self.levels)
            and self.pattern.search(line["text"]) is not None
        )


def compiled(query: str, *, regex: bool, case: bool) -> Pattern:
    """`query` as a pattern: literal unless `regex`; upper and lower case differ only with `case`.

    Raises PatternInvalid for what RE2 refuses: back references, look-around, huge repetitions.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEM
    options.case_sensitive = case
    options.literal = not regex
    try:
        pattern: Pattern = re2.compile(query, options=options)
    except re2.error as error:
        raise PatternInvalid(_words(error)) from None
    return pattern


def _words(error: Exception) -> str:
    reason = error.args[0] if error.args else "not understood"
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
