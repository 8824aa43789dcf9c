"""A bundle's file: its bytes, the tree in them, and what the bundle's rules say about it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cue import CueError, evaluate
from readers.diagnostics import Diagnostic
from readers.tree import Tree
from sync_stack.core.bundle.diagnostics import listed
from sync_stack.core.bundle.validation import BundleReading, read_bundle
from sync_stack.core.shaping.errors import ShapingError
from sync_stack.formats import formats

MAX_BYTES: Final = 4 * 2**20
_DATA_FORMATS: Final = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleText:
    """The content of a bundle's file; `problem` says why there is none.

    `file` names it in messages, and its suffix says how it is read.
    """

    file: str
    data: bytes = b""
    problem: str = ""
    path: str = ""  # where it was read

    @property
    def digest(self) -> str:
        """SHA-256 of the content, hex; of a problem, something no content has."""
        return hashlib.sha256(self.data).hexdigest() if not self.problem else self.problem


def read_text(path: Path, *, name: str = "") -> BundleText:
    """At most 4 MiB of a regular file; `name`: what to call it in place of the path."""
    file_name = name or str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return BundleText(file=file_name, problem=f"cannot be read: {error.strerror}")
    if len(data) > MAX_BYTES:
        return BundleText(file=file_name, problem=f"larger than {MAX_BYTES} bytes")
    return BundleText(file=file_name, data=data, path=str(path))


def bundle_of(
    text: BundleText, *, production: bool = False, strict: bool = False, cue_binary: str = ""
) -> BundleReading:
    """Everything that is wrong with the text, or the bundle in it."""
    file = text.file
    if text.problem:
        return _refused([Diagnostic(file=file, code="syntax_error", message=text.problem)])
    try:
        tree = _tree(text, cue_binary)
    except CueError as error:
        return _refused(error.diagnostics)
    except ShapingError as error:
        return _refused([_as_complaint(error, file)])
    return read_bundle(tree, file=file, production=production, strict=strict, digest=text.digest)


def _tree(text: BundleText, cue_binary: str) -> Tree:
    """By the suffix: `.json` and `.yaml` are data, everything else is CUE."""
    if name := _DATA_FORMATS.get(Path(text.file).suffix.lower()):
        return formats[name].parse(text.data, file=text.file)
    return evaluate(_decoded(text), file=text.file, path=text.path, binary=cue_binary)


def _decoded(text: BundleText) -> str:
    try:
        return text.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.data[: error.start].count(b"\n") + 1
        raise ShapingError("parse_error", "not UTF-8", file=text.file, line=line) from None


def _refused(complaints: list[Diagnostic]) -> BundleReading:
    return BundleReading(bundle=None, complaints=listed(complaints))


def _as_complaint(error: ShapingError, file: str) -> Diagnostic:
    return Diagnostic(
        file=file, line=error.line, column=error.column, code="syntax_error", message=error.detail
    )
