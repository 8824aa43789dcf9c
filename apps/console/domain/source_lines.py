"""A file with line numbers, and the place of an error in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """One line; on the line of the error `at` is the character at fault, else empty."""

    number: int
    before: str
    at: str = ""
    after: str = ""
    is_error: bool = False


def numbered(text: str, error: Mapping[str, Any] | None = None) -> list[SourceLine]:
    """The lines of a file, 1-based; `error` is a `topologyError` of this very file, or None."""
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
        at=content[index : index + 1] or " ",  # an error at the end of the line
        after=content[index + 1 :],
        is_error=True,
    )


def error_of(file: str, error: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The topology error when it lies in that file."""
    return error if error and error.get("file", "suite.star") == file else None
