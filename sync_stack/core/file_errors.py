"""Why the content of a file cannot be used."""

from __future__ import annotations

from collections.abc import Sequence

from readers.diagnostics import Diagnostic


class ShapingError(Exception):
    """One fact with a code of tasks (reference: sync-stack 4.10); `detail` holds no value.

    `line` and `column` are 1-based, 0 where no place is known; `diagnostics` lists all of a failed
    schema check. `retryable`: where this error differs from others of its code.
    """

    def __init__(  # noqa: PLR0913
        self,
        code: str,
        detail: str,
        *,
        file: str = "",
        line: int = 0,
        column: int = 0,
        diagnostics: Sequence[Diagnostic] = (),
        retryable: bool | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.file = file
        self.line = line
        self.column = column
        self.diagnostics = tuple(diagnostics)
        self.retryable = retryable

    def __str__(self) -> str:
        """`FILE:LINE:COLUMN: DETAIL [CODE]`, without the parts that are not known."""
        numbers = [str(number) for number in (self.line, self.column) if number]
        place = ":".join([self.file, *numbers]) if self.file else ""
        return f"{place}: {self.detail} [{self.code}]" if place else f"{self.detail} [{self.code}]"
