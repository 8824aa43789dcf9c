"""The files of a suite, and the rules for them (reference: control-plane 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NotRequired, TypedDict

MAX_FILES: Final = 512
MAX_FILE_BYTES: Final = 2 * 2**20
MAX_PACKAGE_BYTES: Final = 64 * 2**20  # as for registries (reference: control-plane 5.2)
TOPOLOGY_FILE: Final = "suite.star"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The files of a suite by their path in the package.

    `problem` is the broken package rule or "", `problem_file` its file; `files` then has only the
    files that could be read.
    """

    suite_id: str
    files: Mapping[str, bytes]
    problem: str = ""
    problem_file: str = ""

    def text(self, path: str) -> str:
        """Return a file's text, or "" for an unknown file."""
        return self.files.get(path, b"").decode(errors="replace")

    def first_of(self, *paths: str) -> str | None:
        return next((path for path in paths if path in self.files), None)


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


def content_digest(files: Mapping[str, bytes]) -> str:
    """Return `sha256:` of the sorted `path NUL size NUL sha256(file) LF`.

    (reference: control-plane 8)
    """
    whole = hashlib.sha256()
    for path in sorted(files):
        content = files[path]
        own = hashlib.sha256(content).hexdigest()
        whole.update(f"{path}\0{len(content)}\0{own}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def broken_text_rule(content: bytes) -> str:
    """Return why the bytes are not allowed as a file of a package, or ""."""
    if len(content) > MAX_FILE_BYTES:
        return "is larger than 2 MiB"
    if b"\0" in content:
        return "contains a NUL byte"
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"is not UTF-8 at byte {error.start}"
    return ""
