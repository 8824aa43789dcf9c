"""Errors that carry a fact and a stable code.

Every part raises `PlatformError` or a subclass; each edge (HTTP, commands, the agent protocol)
translates it once. The codes and their HTTP statuses are listed in `kernel.problems`.

    PlatformError
    └── one subclass per fact, beside the code that raises it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NotRequired, TypedDict

_MAX_NAMES: Final = 10


class WarningDocument(TypedDict):
    """What is wrong, and where; `line` and `column` of the file count from 1."""

    code: str
    detail: str
    file: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]


class FieldErrorDocument(WarningDocument):
    """What is wrong, and where; `line` and `column` of the file count from 1."""

    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWarning:
    """What is wrong in a file: what kind, in words, and where.

    `file`, `line`, `column` (1-based) are set where a file's text is at fault.
    """

    code: str
    detail: str
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def place(self) -> str:
        """Return the place as `file:line:column`, as far as it is known."""
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)

    def as_dict(self) -> WarningDocument:
        document: WarningDocument = {"code": self.code, "detail": self.detail}
        if self.file is not None:
            document["file"] = self.file
        if self.line is not None:
            document["line"] = self.line
        if self.column is not None:
            document["column"] = self.column
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError(FileWarning):
    """One entry of a problem's `errors[]`: where, what kind, in words.

    `pointer` is a JSON pointer (`/fileName`); for a query parameter, `/` and its name.
    """

    pointer: str = ""

    def as_dict(self) -> FieldErrorDocument:
        return {"pointer": self.pointer, **FileWarning.as_dict(self)}


class PlatformError(Exception):
    """A fact that stops a use case; `code` is one of `kernel.problems.PROBLEMS`.

    `detail` is shown to users: never a secret, a stack trace or a path of the server.
    `members` are further keys of the problem document (for example `nextSeq`).
    """

    code: ClassVar[str] = "internal_error"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        errors: Sequence[FieldError] = (),
        retry_after_s: int | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problem_code = code or type(self).code
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s
        self.members = dict(members or {})


class InvalidInput(PlatformError):
    """A request body or parameter breaks a rule; `errors` say where."""

    code = "validation_failed"


class NotFound(PlatformError):
    code = "not_found"


def known_names(names: Iterable[str], *, keep_order: bool = False) -> str:
    """Return the end of a sentence about an unknown name, with the first known names.

    They are sorted, unless the order of `names` says which of them are likely to be meant.
    """
    found = list(names) if keep_order else sorted(names)
    more = ", …" if len(found) > _MAX_NAMES else ""
    return f"; known: {', '.join(found[:_MAX_NAMES])}{more}" if found else "; none exist"
