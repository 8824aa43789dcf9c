"""The formats of configuration files: which one a file has, and how it is read and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from kernel.registry import Registry
from readers.tree import Tree
from sync_stack.core.shaping.errors import ShapingError
from sync_stack.formats.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`names` are whole file names (with `*`) and win over every extension.

    `read` makes the tree of a decoded file; `render` is None where a format is only read.
    """

    name: str
    extensions: tuple[str, ...]
    names: tuple[str, ...] = ()
    read: Callable[[Source], Tree]
    render: Callable[[Tree], bytes] | None = None

    def parse(self, data: bytes, *, file: str) -> Tree:
        """Every value with its place and spelling. Raises ShapingError with `file`."""
        return self.read(Source.decoded(data, file=file))


formats: Final[Registry[Format]] = Registry("format")


def register(entry: Format) -> Format:
    return formats.register(entry.name)(entry)


def detect(file: str, *, file_format: str = "auto") -> Format:
    """The format of a path: as the rule says, else by name, else by extension.

    Raises ShapingError(unknown_format).
    """
    if file_format != "auto":
        if file_format in formats:
            return formats[file_format]
        raise ShapingError("unknown_format", f"unknown format {file_format!r}", file=file)
    found = by_name(file)
    if found is None:
        known = ", ".join(sorted(ext for name in formats for ext in formats[name].extensions))
        detail = f"no format for this name (known extensions: {known})"
        raise ShapingError("unknown_format", detail, file=file)
    return found


def by_name(file: str) -> Format | None:
    """The format that a path's name or extension stands for."""
    name = file.rsplit("/", 1)[-1].lower()
    every = [formats[known] for known in formats]
    for entry in every:
        if any(fnmatchcase(name, pattern) for pattern in entry.names):
            return entry
    extension = name.rpartition(".")[2] if "." in name else ""
    return next((entry for entry in every if extension in entry.extensions), None)
