"""Bounded readers of text from outside: YAML and JSON with limits on size, depth and expansion."""

from __future__ import annotations


class Unreadable(ValueError):
    """A text that breaks a rule of its format or a limit; `line` and `column` are 1-based."""

    def __init__(self, reason: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column
