"""The port of the formats of configuration files: bytes → Tree with places and spelling, and back.

A format is one module in `sync_stack/formats` that registers a `Format`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NoReturn, TypeAlias

from kernel.registry import Registry
from readers.tree import Kind, Tree
from sync_stack.core.file_errors import ShapingError

MAX_BYTES: Final = 16 * 2**20
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 250_000  # maps, lists and scalars of one file, all environments together
_BOMS: Final = (  # the longer ones first: UTF-32-LE begins like UTF-16-LE
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_NOT_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_MAX_SEGMENTS: Final = 40  # deeper keys stay as they are: readers stop at 64
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_Nested: TypeAlias = "dict[str, _Nested | str]"


class Source:
    """The text of one file; makes the values read from it and the errors about it."""

    def __init__(self, text: str, *, file: str) -> None:
        self.text = text
        self.file = file
        self.values = 0
        self._seen, self._line, self._start = 0, 1, 0  # readers ask for places left to right
        if "\0" in text:
            self.fail("NUL is not text", text.index("\0"))

    @classmethod
    def decode(cls, data: bytes, *, file: str) -> Source:
        """Decode by the byte order mark, else as strict UTF-8; raise ShapingError."""
        if len(data) > MAX_BYTES:
            raise ShapingError("parse_error", f"larger than {MAX_BYTES} bytes", file=file)
        mark, encoding = next((bom for bom in _BOMS if data.startswith(bom[0])), (b"", "utf-8"))
        body = data[len(mark) :]
        try:
            return cls(body.decode(encoding), file=file)
        except UnicodeDecodeError as error:
            before = body[: error.start].decode(encoding, errors="replace")
            line = before.count("\n") + 1
            column = len(before) - before.rfind("\n")
            detail = f"not {encoding.upper()}"
            raise ShapingError("parse_error", detail, file=file, line=line, column=column) from None

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, 1-based, of a character of the text."""
        if offset < self._seen:
            self._seen, self._line, self._start = 0, 1, 0
        breaks = self.text.count("\n", self._seen, offset)
        if breaks:
            self._line += breaks
            self._start = self.text.rfind("\n", self._seen, offset) + 1
        self._seen = offset
        return self._line, offset - self._start + 1

    def fail(self, detail: str, offset: int, *, code: str = "parse_error") -> NoReturn:
        self.fail_at(detail, self.place(min(offset, len(self.text))), code=code)

    def fail_at(
        self, detail: str, place: tuple[int, int], *, code: str = "parse_error"
    ) -> NoReturn:
        raise ShapingError(code, detail, file=self.file, line=place[0], column=place[1])

    def scalar(self, kind: Kind, text: str, place: tuple[int, int]) -> Tree:
        self.count(place)
        if not text.isascii() and _NOT_TEXT.search(text):
            self.fail_at("half of a surrogate pair is not text", place)
        if "\0" in text:
            self.fail_at("NUL is not text", place)
        return Tree(kind=kind, text=text, line=place[0], column=place[1])

    def string(self, text: str, place: tuple[int, int]) -> Tree:
        return self.scalar(Kind.STRING, text, place)

    def map(self, pairs: Mapping[str, Tree], place: tuple[int, int]) -> Tree:
        self.count(place)
        return Tree(kind=Kind.MAP, pairs=pairs, line=place[0], column=place[1])

    def list(self, items: Iterable[Tree], place: tuple[int, int]) -> Tree:
        self.count(place)
        return Tree(kind=Kind.LIST, items=tuple(items), line=place[0], column=place[1])

    def key(self, text: str, taken: Mapping[str, object], place: tuple[int, int]) -> str:
        """The name of a member that must be new among its siblings, and text."""
        if text in taken:
            self.fail_at(f'the key "{text[:80]}" occurs twice', place)
        if "\0" in text or (not text.isascii() and _NOT_TEXT.search(text)):
            self.fail_at("a key holds NUL or half of a surrogate pair", place)
        return text

    def too_deep(self, place: tuple[int, int]) -> NoReturn:
        self.fail_at(f"nested more than {MAX_DEPTH} deep", place)

    def count(self, place: tuple[int, int]) -> None:
        """Count one value more; every method that makes a value calls it."""
        self.values += 1
        if self.values > MAX_VALUES:
            self.fail_at(f"more than {MAX_VALUES} values", place, code="too_many_keys")


class Cursor:
    """A position in the text of a file; readers of one format extend it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.at = 0

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def peek(self) -> str:
        """Return the next character, "" at the end."""
        return self.text[self.at : self.at + 1]

    def fail(self, detail: str) -> NoReturn:
        self.source.fail(detail, self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format; `read` makes the tree of a decoded file, `render` is None where it is only read.

    `names` are whole file names (with `*`) and win over every extension. The first of `extensions`
    is that of written files. `notes` are for the documentation.
    """

    name: str
    extensions: tuple[str, ...]
    names: tuple[str, ...] = ()
    read: Callable[[Source], Tree]
    render: Callable[[Tree], bytes] | None = None
    content_type: str = ""
    notes: str = ""

    def parse(self, data: bytes, *, file: str) -> Tree:
        """Every value with its place and spelling. Raises ShapingError with `file`."""
        return self.read(Source.decode(data, file=file))


formats: Final[Registry[Format]] = Registry("format", package="sync_stack.formats")


def register(entry: Format) -> Format:
    return formats.register(entry.name)(entry)


def writable_formats() -> Iterator[str]:
    """Yield the names of the formats that can be written."""
    return (name for name in formats if formats[name].render)


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


def render(
    values: Mapping[str, str] | Tree,
    file_format: str,
    *,
    nested: bool = False,
    native: bool = False,
) -> bytes:
    """Return the document with the sorted flat keys `values`, in UTF-8.

    Raise ShapingError: `unknown_format` for a format that is only read, `key_invalid` for a key or
    value that the format cannot express.
    """
    write = formats[file_format].render if file_format in formats else None
    if write is None:
        raise ShapingError("unknown_format", f"{file_format!r} is not a format that can be written")
    if isinstance(values, Tree):
        return write(values)
    return write(build_tree(values, nested=nested, native=native))


def escape(text: str, unsafe: re.Pattern[str], short: Mapping[str, str]) -> str:
    r"""Return the text with each unsafe character as its short escape, else as `\uXXXX`."""
    return unsafe.sub(lambda found: short.get(found[0]) or f"\\u{ord(found[0]):04X}", text)


def build_tree(values: Mapping[str, str], *, nested: bool = False, native: bool = False) -> Tree:
    """Return flat settings as a sorted map.

    `nested`: dots become levels and indices lists, where that flattens to the same keys. `native`:
    text that looks like a number or boolean is one, if the format reads the same spelling back.
    """
    made: _Nested = {}
    for key in sorted(values):
        level, name = _nest(made, key) if nested else (made, key)
        level[name] = values[key]
    pairs = {key: _tree(value, native=native, lists=nested) for key, value in made.items()}
    return Tree(kind=Kind.MAP, pairs=pairs)


def _nest(root: _Nested, key: str) -> tuple[_Nested, str]:
    """Return the map and member for a key; a key below an existing value keeps its dots."""
    *above, last = segments = key.split(".")
    if len(segments) > _MAX_SEGMENTS:
        return root, key
    level = root
    for index, segment in enumerate(above):
        inner = level.setdefault(segment, {})
        if isinstance(inner, str):
            return level, ".".join(segments[index:])
        level = inner
    return level, last


def _tree(value: _Nested | str, *, native: bool, lists: bool) -> Tree:
    if isinstance(value, str):
        kind = Kind.STRING
        if native and value in ("true", "false"):
            kind = Kind.BOOL
        elif native and _NUMBER.fullmatch(value):
            kind = Kind.NUMBER
        return Tree(kind=kind, text=value)
    pairs = {key: _tree(inner, native=native, lists=lists) for key, inner in value.items()}
    indices = [str(index) for index in range(len(pairs))]
    if lists and pairs and pairs.keys() == set(indices):
        return Tree(kind=Kind.LIST, items=tuple(pairs[index] for index in indices))
    return Tree(kind=Kind.MAP, pairs=pairs)
