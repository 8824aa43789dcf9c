"""The lines of a file, one of which may have an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """One line. On the line of the error, `at` is the character with the error."""

    number: int
    before: str
    at: str = ""
    after: str = ""
    is_error: bool = False


def numbered(text: str, error: Mapping[str, Any] | None = None) -> list[SourceLine]:
    """Return the lines of a file; `error` is a `topologyError` of this file, or None."""
    line = int((error or {}).get("line", 0))
    column = int((error or {}).get("column", 0))
    return [
        _with_error(number, content, column)
        if number == line
        else SourceLine(number=number, before=content)
        for number, content in enumerate(text.split("\n"), start=1)
    ]


def _with_error(number: int, content: str, column: int) -> SourceLine:
    if not column:
        return SourceLine(number=number, before=content, is_error=True)
    index = min(column - 1, len(content))
    return SourceLine(
        number=number,
        before=content[:index],
        at=content[index : index + 1] or " ",  # the error is at the end of the line
        after=content[index + 1 :],
        is_error=True,
    )


def error_of(file: str, error: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the topology error if it is in that file."""
    return error if error and error.get("file", "suite.star") == file else None
