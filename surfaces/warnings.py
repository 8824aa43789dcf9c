"""What is wrong in a file of a suite without making it unusable: an entry of `warnings[]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired, TypedDict


class WarningDocument(TypedDict):
    """A warning on the wire."""

    code: str
    detail: str
    file: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageWarning:
    """An entry of a suite's `warnings[]`."""

    code: str
    detail: str
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def as_dict(self) -> WarningDocument:
        document: WarningDocument = {"code": self.code, "detail": self.detail}
        if self.file is not None:
            document["file"] = self.file
        if self.line is not None:
            document["line"] = self.line
        if self.column is not None:
            document["column"] = self.column
        return document
