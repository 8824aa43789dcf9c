"""TOML 1.0 with places; floats and dates keep their spelling, integers become decimal.

A reader of its own, because the standard one keeps neither places nor the spelling of dates, and
tomlkit keeps no places. What is valid is checked against the standard one in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Final, NoReturn, TypeAlias

from readers.tree import Kind, Tree
from sync_stack.core.formats import MAX_DEPTH, Cursor, Format, Source, escape, register

Place: TypeAlias = tuple[int, int]
Path: TypeAlias = list[tuple[str, Place]]

_CONTROL: Final = r"\0-\x08\x0b-\x1f\x7f"  # all but tab and line break
STRING: Final = re.compile(
    rf'"""\n?(?P<long>(?:[^"\\{_CONTROL}]++|\\[^{_CONTROL}]|"(?!""))*+)"""(?P<tail>"{{0,2}})'
    rf"|'''\n?(?P<raw>(?:[^'{_CONTROL}]++|'(?!''))*+)'''(?P<rawtail>'{{0,2}})"
    rf'|"(?P<short>(?:[^"\\\n{_CONTROL}]++|\\[^\n{_CONTROL}])*+)"'
    rf"|'(?P<literal>[^'\n{_CONTROL}]*+)'"
)
_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<fold>[ \t]*\n[ \t\n]*)|(?P<one>.))",
    re.DOTALL,
)
_SHORT: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_WRITTEN: Final = {value: f"\\{key}" for key, value in _SHORT.items()}
_DECIMAL: Final = re.compile(r"[+-]?(?:0|[1-9](?:_?[0-9])*+)")
_BASED: Final = re.compile(
    r"0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*+|0o[0-7](?:_?[0-7])*+|0b[01](?:_?[01])*+"
)
_FLOAT: Final = re.compile(
    r"[+-]?(?:0|[1-9](?:_?[0-9])*+)(?:\.[0-9](?:_?[0-9])*+)?(?:[eE][+-]?[0-9](?:_?[0-9])*+)?"
)
_NOT_FINITE: Final = re.compile(r"[+-]?(?:inf|nan)")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
_TIME: Final = re.compile(_CLOCK)
_MOMENT: Final = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt ]{_CLOCK}(?:[Zz]|[+-][0-9]{{2}}:[0-9]{{2}})?"
)
_MOMENTS: Final[tuple[tuple[re.Pattern[str], Callable[[str], object]], ...]] = (
    (_DATE, date.fromisoformat),
    (_TIME, time.fromisoformat),
    (_MOMENT, datetime.fromisoformat),
)
_MAX_DIGITS: Final = 4000
_UNSAFE: Final = re.compile(r'["\\\0-\x08\n-\x1f\x7f]')
_SPACE: Final = re.compile(r"[ \t]*+")
_GAP: Final = re.compile(r"(?:[ \t\n]++|#[^\0-\x08\n-\x1f\x7f]*+)*+")
_LINE_END: Final = re.compile(r"[ \t]*+(?:#[^\0-\x08\n-\x1f\x7f]*+)?(?:\n|\Z)")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]++")
_WORD: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]++(?:Z|z|[+-][0-9:]++)?|[A-Za-z0-9_.:+-]++"
)


@dataclass(slots=True, kw_only=True)
class _Table:
    """A table that may still grow. `closed`: named by a header, or by dotted keys before one."""

    place: Place
    pairs: dict[str, _Table | list[_Table] | Tree] = field(default_factory=dict)
    closed: bool = False


class _TomlReader(Cursor):
    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.dotted: list[_Table] = []  # made by keys since the last header

    def document(self) -> Tree:
        root = current = _Table(place=(1, 1))
        self.skip(_GAP)
        while self.at < len(self.text):
            if self.peek() == "[":
                current = self.header(root)
            else:
                self.member(current, 0)
            self.end_of_line()
            self.skip(_GAP)
        return self.table_tree(root, 0)

    def header(self, root: _Table) -> _Table:
        """Return the table that `[a.b]` or `[[a.b]]` opens."""
        for table in self.dotted:
            table.closed = True
        self.dotted.clear()
        brackets = 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        path = self.path()
        if not self.text.startswith("]" * brackets, self.at):
            self.fail("expected `]`")
        self.at += brackets
        table = root
        for name, place in path[:-1]:
            table = self.enter_table(table, name, place)
        opened = self.append_table if brackets > 1 else self.open_table
        return opened(table, *path[-1])

    def enter_table(self, table: _Table, name: str, place: Place) -> _Table:
        found = table.pairs.setdefault(name, _Table(place=place))
        if isinstance(found, list):
            return found[-1]
        if isinstance(found, Tree):
            self.twice(name, place)
        return found

    def open_table(self, table: _Table, name: str, place: Place) -> _Table:
        found = table.pairs.setdefault(name, _Table(place=place))
        if not isinstance(found, _Table) or found.closed:
            self.twice(name, place)
        found.closed = True
        return found

    def append_table(self, table: _Table, name: str, place: Place) -> _Table:
        self.source.count(place)
        found = table.pairs.setdefault(name, [])
        if not isinstance(found, list):
            self.twice(name, place)
        found.append(_Table(place=place, closed=True))
        return found[-1]

    def member(self, table: _Table, depth: int) -> None:
        """One `key = value`, into a table that may be nested by the dots of the key."""
        path = self.path()
        if self.peek() != "=":
            self.fail("expected `=`")
        self.at += 1
        self.skip(_SPACE)
        for name, place in path[:-1]:
            inner = table.pairs.setdefault(name, _Table(place=place))
            if not isinstance(inner, _Table) or inner.closed:
                self.twice(name, place)
            self.dotted.append(inner)
            table = inner
        name, place = path[-1]
        table.pairs[self.source.key(name, table.pairs, place)] = self.value(depth)

    def path(self) -> Path:
        path: Path = []
        while True:
            self.skip(_SPACE)
            path.append((self.key(), self.source.place(self.at)))
            self.skip(_SPACE)
            if len(path) > MAX_DEPTH:
                self.source.too_deep(self.source.place(self.at))
            if self.peek() != ".":
                return path
            self.at += 1

    def key(self) -> str:
        bare = _BARE_KEY.match(self.text, self.at)
        if bare:
            self.at = bare.end()
            return bare[0]
        if self.peek() not in ('"', "'") or self.text[self.at : self.at + 3] in ('"""', "'''"):
            self.fail("expected a key")
        return self.string()

    def value(self, depth: int) -> Tree:
        place = self.source.place(self.at)
        first = self.peek()
        if first and first in "[{":
            if depth >= MAX_DEPTH:
                self.source.too_deep(place)
            return self.array(depth, place) if first == "[" else self.inline(depth, place)
        if first in ('"', "'"):
            return self.source.string(self.string(), place)
        return self.bare(place)

    def bare(self, place: Place) -> Tree:
        word = _WORD.match(self.text, self.at)
        if not word:
            self.fail("expected a value")
        try:
            kind, text = number(word[0])
        except TomlError as error:
            self.fail(str(error))
        self.at = word.end()
        return self.source.scalar(kind, text, place)

    def string(self) -> str:
        match = STRING.match(self.text, self.at)
        if not match:
            self.fail("a string without end, or with a control character")
        try:
            text = string(match)
        except TomlError as error:
            self.fail(str(error))
        self.at = match.end()
        return text

    def array(self, depth: int, place: Place) -> Tree:
        items: list[Tree] = []
        self.at += 1
        self.skip(_GAP)
        while self.peek() != "]":
            items.append(self.value(depth + 1))
            self.skip(_GAP)
            if self.peek() == ",":
                self.at += 1
                self.skip(_GAP)
            elif self.peek() != "]":
                self.fail("expected `,` or `]`")
        self.at += 1
        return self.source.list(items, place)

    def inline(self, depth: int, place: Place) -> Tree:
        table = _Table(place=place)
        outer, self.dotted = self.dotted, []
        self.at += 1
        self.skip(_SPACE)
        while self.peek() != "}":
            if table.pairs:
                self.comma()
            self.member(table, depth + 1)
            self.skip(_SPACE)
        self.at += 1
        self.dotted = outer
        return self.table_tree(table, depth)

    def comma(self) -> None:
        if self.peek() != ",":
            self.fail("expected `,` or `}`")
        self.at += 1

    def table_tree(self, table: _Table, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            self.source.too_deep(table.place)
        pairs = {name: self.member_tree(value, depth + 1) for name, value in table.pairs.items()}
        return self.source.map(pairs, table.place)

    def member_tree(self, value: _Table | list[_Table] | Tree, depth: int) -> Tree:
        if isinstance(value, list):
            items = [self.table_tree(item, depth + 1) for item in value]
            return self.source.list(items, value[0].place)
        return value if isinstance(value, Tree) else self.table_tree(value, depth)

    def end_of_line(self) -> None:
        match = _LINE_END.match(self.text, self.at)
        if not match:
            self.fail("expected the end of the line")
        self.at = match.end()

    def twice(self, name: str, place: Place) -> NoReturn:
        self.source.fail_at(f'"{name[:80]}" is defined twice', place)


def read(source: Source) -> Tree:
    return _TomlReader(Source(source.text.replace("\r\n", "\n"), file=source.file)).document()


def render(tree: Tree) -> bytes:
    """Scalars and lists of a table first, its tables after them."""
    lines = _table(tree, ())
    return "".join(f"{line}\n" for line in lines).lstrip("\n").encode()


def _table(tree: Tree, path: tuple[str, ...]) -> list[str]:
    below = {key: value for key, value in tree.pairs.items() if value.kind is Kind.MAP}
    own = [
        f"{_key(key)} = {_inline(value)}" for key, value in tree.pairs.items() if key not in below
    ]
    lines = ["", f"[{'.'.join(map(_key, path))}]", *own] if path and (own or not below) else own
    for key, value in below.items():
        lines.extend(_table(value, (*path, key)))
    return lines


def _key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else quote(text)


def _inline(tree: Tree) -> str:
    if tree.kind is Kind.LIST:
        return f"[{', '.join(_inline(item) for item in tree.items)}]"
    if tree.kind is Kind.MAP:
        members = (f"{_key(key)} = {_inline(value)}" for key, value in tree.pairs.items())
        return f"{{{', '.join(members)}}}"
    return _scalar(tree)


def _scalar(tree: Tree) -> str:
    """Bare where TOML reads the same spelling back, else as a string; null as an empty one."""
    if tree.kind in (Kind.NUMBER, Kind.BOOL):
        try:
            if number(tree.text) == (tree.kind, tree.text):
                return tree.text
        except TomlError:
            pass
    return quote(tree.text)


class TomlError(ValueError):
    """A scalar that TOML does not allow; the message says why."""


def string(match: re.Match[str]) -> str:
    """Return the content of a match of STRING."""
    for name, tail in (("raw", match["rawtail"]), ("literal", "")):
        if match[name] is not None:
            return str(match[name]) + (tail or "")
    if match["long"] is not None:
        return _ESCAPE.sub(_unescape, match["long"]) + match["tail"]
    return _ESCAPE.sub(_unescape, match["short"])


def _unescape(match: re.Match[str]) -> str:
    if match["fold"] is not None:
        return ""
    code = match["u"] or match["U"]
    if code:
        value = int(code, 16)
        if 0xD800 <= value <= 0xDFFF or value > 0x10FFFF:  # noqa: PLR2004
            raise TomlError("the escape is not a valid character")
        return chr(value)
    if match["one"] not in _SHORT:
        raise TomlError(f"unknown escape \\{match['one']}")
    return _SHORT[match["one"]]


def number(text: str) -> tuple[Kind, str]:
    """Return the kind and text of a word: integers in decimal, dates as text. Raise TomlError."""
    if text in ("true", "false"):
        return Kind.BOOL, text
    if _DECIMAL.fullmatch(text):
        digits = text.replace("_", "").lstrip("+")
        return Kind.NUMBER, "0" if digits == "-0" else digits
    if _BASED.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise TomlError("an integer of thousands of digits")
        return Kind.NUMBER, str(int(text, 0))
    if _FLOAT.fullmatch(text):
        return Kind.NUMBER, text
    if _NOT_FINITE.fullmatch(text):
        raise TomlError(f"{text} is not a number that can be kept")
    return _moment(text)


def _moment(text: str) -> tuple[Kind, str]:
    for pattern, read in _MOMENTS:
        if pattern.fullmatch(text):
            try:
                read(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text.upper()))
            except ValueError:
                raise TomlError("no such date or time") from None
            return Kind.STRING, text
    raise TomlError("expected a value")


def quote(text: str) -> str:
    """Return the text as a basic string."""
    return f'"{escape(text, _UNSAFE, _WRITTEN)}"'


register(
    Format(
        name="toml",
        extensions=("toml",),
        read=read,
        render=render,
        notes="TOML 1.0; integers become decimal (`0x1F` is `31`), dates stay as written",
    )
)
