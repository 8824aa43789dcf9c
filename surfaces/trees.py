"""Texts of api/ and mock/ as trees with positions, and the warnings about them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from kernel.errors import FileWarning
from readers import Unreadable
from readers.json import read_json
from readers.tree import Kind, Tree
from readers.yaml import Node, read_yaml

MAX_WARNINGS: Final = 200
MAX_PROSE: Final = 4_000
MAX_MOCKS: Final = 8 * 2**20  # of all files of mock/
MAX_CONTRACTS: Final = 32 * 2**20  # of all files of api/
MAX_DOCUMENT: Final = 16 * 2**20
MAX_PLACED: Final = 512 * 2**10  # a larger JSON document is read without positions
_COMMENT_LINE: Final = re.compile(r"^[ \t]*//.*$", re.MULTILINE)
NOTHING: Final = Tree(kind=Kind.NULL)


class Warnings:
    """The warnings of one hydration, at most `MAX_WARNINGS`."""

    def __init__(self) -> None:
        self._found: dict[FileWarning, None] = {}
        self._left_out = 0

    @property
    def is_full(self) -> bool:
        return len(self._found) >= MAX_WARNINGS

    def add(self, code: str, detail: str, file: str, at: Tree | None = None) -> None:
        line, column = (at.line, at.column) if at is not None else (0, 0)
        self.add_at(code, detail, file, line, column)

    def add_at(self, code: str, detail: str, file: str, line: int = 0, column: int = 0) -> None:
        if self.is_full:
            self._left_out += 1
            return
        warning = FileWarning(
            code=code, detail=detail, file=file or None, line=line or None, column=column or None
        )
        self._found[warning] = None

    def add_unreadable(self, code: str, file: str, error: Unreadable) -> None:
        self.add_at(code, error.reason, file, error.line or 0, error.column or 0)

    def list_warnings(self) -> tuple[FileWarning, ...]:
        if not self._left_out:
            return tuple(self._found)
        detail = f"{self._left_out} more warnings about api/ and mock/ are not listed"
        return (*self._found, FileWarning(code="limit_exceeded", detail=detail))


def read_tree(text: str, path: str) -> Tree:
    """Return the document of a YAML or JSON file; raise Unreadable.

    JSON may hold lines that begin with `//`. Positions are those of the file; values of large JSON
    have none, since finding them takes ten times as long as reading.
    """
    if PurePosixPath(path).suffix.lower() != ".json":
        return _tree(read_yaml(text))
    text = without_comments(text)
    try:
        value = read_json(text.encode(), max_bytes=MAX_DOCUMENT)
    except Unreadable as error:
        raise with_place(text, error) from None
    if len(text) > MAX_PLACED:
        return tree_of(value)
    try:
        return _tree(read_yaml(text))
    except Unreadable:  # JSON that is not YAML: escaped surrogate pairs, tabs
        return tree_of(value)


def with_place(text: str, error: Unreadable) -> Unreadable:
    """Return why a text of JSON cannot be read with the place, such as that of a second key."""
    if error.line is None and len(text) <= MAX_PLACED:
        try:
            read_yaml(text)
        except Unreadable as placed:
            return placed if placed.reason == error.reason else error
    return error


def without_comments(text: str) -> str:
    """Return JSON without the lines that begin with `//`; line breaks stay."""
    return _COMMENT_LINE.sub("", text) if "//" in text else text


def tree_of(value: Any, *, at: Tree = NOTHING) -> Tree:
    """Return the tree of a plain value, placed at `at`; trees in it stay as they are."""
    if isinstance(value, Tree):
        return value
    line, column = at.line, at.column
    if isinstance(value, dict):
        pairs = {key: tree_of(item, at=at) for key, item in value.items()}
        return Tree(kind=Kind.MAP, pairs=pairs, line=line, column=column)
    if isinstance(value, list | tuple):
        return Tree(
            kind=Kind.LIST,
            items=tuple(tree_of(item, at=at) for item in value),
            line=line,
            column=column,
        )
    if value is None or isinstance(value, str):
        kind = Kind.NULL if value is None else Kind.STRING
        return Tree(kind=kind, text=value or "", line=line, column=column)
    kind = Kind.BOOL if isinstance(value, bool) else Kind.NUMBER
    return Tree(kind=kind, text=json.dumps(value), line=line, column=column)


def _tree(root: Node) -> Tree:
    known: dict[int, Tree] = {}

    def of(node: Node) -> Tree:
        if node.anchored and id(node) in known:
            return known[id(node)]
        made = _build_tree(node)
        if node.anchored:
            known[id(node)] = made
        return made

    def _build_tree(node: Node) -> Tree:
        line, column = node.line, node.column
        if node.items is not None:
            return Tree(kind=Kind.LIST, items=tuple(map(of, node.items)), line=line, column=column)
        if node.pairs is not None:
            pairs = {key.text or "": of(value) for key, value in node.pairs}
            return Tree(kind=Kind.MAP, pairs=pairs, line=line, column=column)
        kind, text = node.kind_and_text()
        return Tree(kind=kind, text=text, line=line, column=column)

    return of(root)


def member(tree: Tree | None, name: str) -> Tree | None:
    """Return a member of a map, ignoring case; None if it is missing or null."""
    if tree is None:
        return None
    found = tree.pairs.get(name)
    if found is None:
        wanted = name.casefold()
        found = next((value for key, value in tree.pairs.items() if key.casefold() == wanted), None)
    return None if found is None or found.kind is Kind.NULL else found


def child(tree: Tree, key: str) -> Tree | None:
    """Return the member or item that a part of a JSON pointer names."""
    if tree.kind is Kind.LIST:
        return tree.items[int(key)] if key.isdecimal() and int(key) < len(tree.items) else None
    return tree.get(key)


def text_of(tree: Tree | None) -> str:
    """Return the text of a string, number or boolean, "" for anything else."""
    if tree is None or tree.kind in (Kind.MAP, Kind.LIST, Kind.NULL):
        return ""
    return tree.text


def nonblank_member(tree: Tree | None, name: str) -> Tree | None:
    """Return a member of a map; None if it is missing, null or a blank text."""
    found = member(tree, name)
    return None if is_blank(found) else found


def is_blank(tree: Tree | None) -> bool:
    """Return whether a value says nothing: it is missing, null, or a text of white space."""
    if tree is None or tree.kind is Kind.NULL:
        return True
    return tree.kind is Kind.STRING and not tree.text.strip()


def first_line(tree: Tree | None) -> str:
    """Return the first line of a text, at most 300 characters."""
    return text_of(tree)[:2000].strip().partition("\n")[0][:300]


def prose(tree: Tree | None) -> str:
    """Return a description, at most 4,000 characters."""
    return text_of(tree)[:MAX_PROSE].strip()


def is_small(tree: Tree, values: int = 200, characters: int = 2_000) -> bool:
    """Return whether a value, with its aliases written out, has no more than that."""
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        values -= 1 + len(here.items) + len(here.pairs)
        characters -= len(here.text)
        if values < 0 or characters < 0:
            return False
        waiting += [*here.items, *here.pairs.values()]
    return True


def is_true(tree: Tree | None) -> bool:
    return tree is not None and tree.kind is Kind.BOOL and tree.text == "true"


def members(tree: Tree | None) -> Iterator[tuple[str, Tree]]:
    if tree is not None:
        yield from tree.pairs.items()


def items(tree: Tree | None) -> tuple[Tree, ...]:
    """Return the items of a list, or a single value as the only one."""
    if tree is None:
        return ()
    return tree.items if tree.kind is Kind.LIST else (tree,)


def body_text(tree: Tree) -> str:
    """Return a literal body: a string as it is, anything else as JSON."""
    if tree.kind is Kind.STRING:
        return tree.text
    return json.dumps(tree.plain(), indent=2, ensure_ascii=False)
