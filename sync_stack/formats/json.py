"""JSON (RFC 8259), JSONC and JSON5: positions, the spelling of each number, no duplicate keys."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined] # typeshed does not know it
from typing import Final

from readers.tree import Kind, Tree
from sync_stack.core.formats import MAX_DEPTH, Cursor, Format, Source, register

NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: Final = {"true": Kind.BOOL, "false": Kind.BOOL, "null": Kind.NULL}
_WORD: Final = re.compile(r"[A-Za-z0-9_$.+-]+")
_QUOTE: Final = re.compile(r"\\.|\"", re.DOTALL)  # what differs between the two kinds of quotes
_IN_DOUBLE: Final = {"\\'": "'", '"': '\\"'}
_SPACE: Final = re.compile(r"[ \t\n\r]*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What is allowed beyond JSON."""

    space: re.Pattern[str] = _SPACE
    trailing_commas: bool = False
    single_quoted: re.Pattern[str] | None = None
    bare_key: re.Pattern[str] | None = None


class Reader(Cursor):
    """One document, from left to right."""

    def __init__(self, source: Source, dialect: Dialect) -> None:
        super().__init__(source)
        self.dialect = dialect

    def document(self) -> Tree:
        value = self.value(0)
        self.space()
        if self.at < len(self.text):
            self.fail("expected the end of the file")
        return value

    def value(self, depth: int) -> Tree:
        first = self.space()
        place = self.source.place(self.at)
        if self.at_string(first):
            return self.source.scalar(Kind.STRING, self.string(first), place)
        if first and first in "{[":
            if depth >= MAX_DEPTH:
                self.source.too_deep(place)
            return self.map(depth, place) if first == "{" else self.list(depth, place)
        return self.bare(place)

    def map(self, depth: int, place: tuple[int, int]) -> Tree:
        pairs: dict[str, Tree] = {}
        while self.more(pairs, "}"):
            key = self.source.key(*self.key(pairs))
            if self.space() != ":":
                self.fail("expected `:`")
            self.at += 1
            pairs[key] = self.value(depth + 1)
        return self.source.map(pairs, place)

    def list(self, depth: int, place: tuple[int, int]) -> Tree:
        items: list[Tree] = []
        while self.more(items, "]"):
            items.append(self.value(depth + 1))
        return self.source.list(items, place)

    def more(self, so_far: object, end: str) -> bool:
        """Pass the opening bracket or a comma; False once the closing bracket is passed."""
        if not so_far:
            self.at += 1
        found = self.space()
        if so_far and found == ",":
            self.at += 1
            found = self.space()
            if found == end and not self.dialect.trailing_commas:
                self.fail("a comma at the end is not JSON")
        elif so_far and found != end:
            self.fail(f"expected `,` or `{end}`")
        if found != end:
            return True
        self.at += 1
        return False

    def key(self, taken: dict[str, Tree]) -> tuple[str, dict[str, Tree], tuple[int, int]]:
        place = self.source.place(self.at)
        first = self.peek()
        if self.at_string(first):
            return self.string(first), taken, place
        bare = self.dialect.bare_key and self.dialect.bare_key.match(self.text, self.at)
        if not bare:
            self.fail("expected a key in quotes")
        self.at = bare.end()
        return bare[0], taken, place

    def at_string(self, first: str) -> bool:
        return first == '"' or (first == "'" and self.dialect.single_quoted is not None)

    def string(self, quote: str) -> str:
        if quote == "'":
            return self.single_quoted_string()
        text: str
        try:
            text, self.at = scanstring(self.text, self.at + 1)
        except json.JSONDecodeError as error:
            self.source.fail(error.msg.removesuffix(" at"), error.pos)
        return text

    def single_quoted_string(self) -> str:
        start = self.at
        match = self.dialect.single_quoted and self.dialect.single_quoted.match(self.text, start)
        if not match:
            self.fail("a string without end")
        self.at = match.end()
        inner = _QUOTE.sub(lambda found: _IN_DOUBLE.get(found[0], found[0]), match[1])
        try:
            text, _ = scanstring(f'"{inner}"', 1)
        except json.JSONDecodeError as error:
            self.source.fail(error.msg.removesuffix(" at"), start)
        return str(text)

    def bare(self, place: tuple[int, int]) -> Tree:
        word = _WORD.match(self.text, self.at)
        text = word[0] if word else ""
        if text in _WORDS:
            kind = _WORDS[text]
        elif NUMBER.fullmatch(text):
            kind = Kind.NUMBER
        else:
            self.fail("expected a value")
        self.at += len(text)
        return self.source.scalar(kind, "" if kind is Kind.NULL else text, place)

    def space(self) -> str:
        """Pass white space; the character after it, empty at the end."""
        first = self.peek()
        if first > " " and first != "/":  # neither white space nor a comment begins here
            return first
        if match := self.dialect.space.match(self.text, self.at):
            self.at = match.end()
        return self.peek()


def read(source: Source) -> Tree:
    return Reader(source, Dialect()).document()


def render(tree: Tree) -> bytes:
    """Indented, members in the tree's order, one newline at the end."""
    return f"{_write(tree, '')}\n".encode()


def _write(tree: Tree, indent: str) -> str:
    inner = f"{indent}  "
    if tree.kind is Kind.MAP:
        members = [f"{quote(key)}: {_write(value, inner)}" for key, value in tree.pairs.items()]
        return _block("{}", members, indent)
    if tree.kind is Kind.LIST:
        return _block("[]", [_write(item, inner) for item in tree.items], indent)
    return format_scalar(tree)


def _block(brackets: str, members: list[str], indent: str) -> str:
    if not members:
        return brackets
    body = ",\n".join(f"{indent}  {member}" for member in members)
    return f"{brackets[0]}\n{body}\n{indent}{brackets[1]}"


def format_scalar(tree: Tree) -> str:
    """Return the text bare where JSON reads the same spelling back, else as a string."""
    if tree.kind is Kind.NULL:
        return "null"
    if tree.kind is Kind.BOOL and tree.text in _WORDS:
        return tree.text
    if tree.kind is Kind.NUMBER and NUMBER.fullmatch(tree.text):
        return tree.text
    return quote(tree.text)


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_COMMENTS: Final = re.compile(r"(?:[ \t\n\r]++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
JSONC: Final = Dialect(space=_COMMENTS, trailing_commas=True)
JSON5: Final = Dialect(
    space=_COMMENTS,
    trailing_commas=True,
    single_quoted=re.compile(r"'((?:[^'\\\n]++|\\.)*+)'"),
    bare_key=re.compile(r"[^\W0-9][\w$]*+|\$[\w$]*+"),
)


def read_jsonc(source: Source) -> Tree:
    """Return the tree of a file with comments and trailing commas, or of a JSON5 file."""
    dialect = JSON5 if source.file.lower().endswith(".json5") else JSONC
    return Reader(source, dialect).document()


register(
    Format(
        name="json",
        extensions=("json",),
        read=read,
        render=render,
        content_type="application/json",
        notes="duplicate keys are errors, as in every format",
    )
)
register(
    Format(
        name="jsonc",
        extensions=("jsonc", "json5"),
        read=read_jsonc,
        notes="comments, trailing commas; `.json5` also `'` and bare keys",
    )
)
