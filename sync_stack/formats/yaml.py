"""YAML 1.2, core schema: `yes` and `no` are strings, numbers keep their spelling, `<<` merges."""

from __future__ import annotations

import re
from typing import Final

from readers import Unreadable
from readers.tree import Kind, Tree
from readers.yaml import Node, read_yaml
from sync_stack.core.formats import MAX_DEPTH, MAX_VALUES, Format, Source, escape, register

MAX_ALIAS_EXPANSIONS: Final = 100


def read(source: Source) -> Tree:
    try:
        root = read_yaml(
            source.text, max_alias_expansions=MAX_ALIAS_EXPANSIONS, max_nodes=MAX_VALUES
        )
        return _Trees(source).of(root, 0)
    except Unreadable as error:
        source.fail_at(error.reason, (error.line or 1, error.column or 1))


class _Trees:
    """Trees of nodes; an anchored one is made once and shared by its aliases."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.known: dict[int, Tree] = {}

    def of(self, node: Node, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            self.source.too_deep((node.line, node.column))
        if not node.anchored:
            return self._build_tree(node, depth)
        if id(node) not in self.known:
            self.known[id(node)] = self._build_tree(node, depth)
        return self.known[id(node)]

    def _build_tree(self, node: Node, depth: int) -> Tree:
        place = (node.line, node.column)
        if node.items is not None:
            return self.source.list([self.of(item, depth + 1) for item in node.items], place)
        if node.pairs is not None:
            return self.source.map(self._pairs(node.pairs, depth), place)
        kind, text = node.kind_and_text()
        return self.source.scalar(kind, text, place)

    def _pairs(self, pairs: list[tuple[Node, Node]], depth: int) -> dict[str, Tree]:
        made: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        for key, node in pairs:
            value = self.of(node, depth + 1)
            if key.plain and key.text == "<<":
                merged = self._merge(value)
            else:
                name = self.source.key(key.text or "", made, (key.line, key.column))
                made[name] = value
        return merged | made if merged else made

    def _merge(self, value: Tree) -> dict[str, Tree]:
        """What `<<` brings: the members of a map or of a list of maps, earlier ones first."""
        sources = value.items if value.kind is Kind.LIST else (value,)
        merged: dict[str, Tree] = {}
        for source in sources:
            if source.kind is not Kind.MAP:
                self.source.fail_at("`<<` takes maps only", (value.line, value.column))
            for name, member in source.pairs.items():
                merged.setdefault(name, member)
        return merged


_SAFE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@-]*")
_READ_OTHERWISE: Final = re.compile(
    r"(?i:y|n|yes|no|on|off|true|false|null|nan|inf)"  # by YAML 1.1, or as no string
)
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+|[0-9]*\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?")
_BARE: Final = {Kind.NUMBER: _NUMBER, Kind.BOOL: re.compile("true|false")}
_ESCAPED: Final = re.compile('[\\\\"\0-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]')
_SHORT: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_LONGEST_SIMPLE_KEY: Final = 1000  # YAML allows 1,024


def render(tree: Tree) -> bytes:
    """Block style, strings in double quotes unless they are plain words."""
    if tree.kind is Kind.MAP and tree.pairs:
        return ("\n".join(_members(tree, "")) + "\n").encode()
    return f"{_inline(tree)}\n".encode()


def _members(tree: Tree, indent: str) -> list[str]:
    lines = []
    for key, value in tree.pairs.items():
        name = _word(key)
        start = f"{indent}{name}:"
        if len(name) > _LONGEST_SIMPLE_KEY:
            start = f"{indent}? {name}\n{indent}:"
        lines.extend(_after(start, value, indent))
    return lines


def _after(start: str, value: Tree, indent: str) -> list[str]:
    """A key or dash and its value: a block below it, or a scalar behind it."""
    if value.pairs:
        return [start, *_members(value, f"{indent}  ")]
    if value.items:
        deeper = f"{indent}  "
        return [start, *(line for e in value.items for line in _after(f"{deeper}-", e, deeper))]
    return [f"{start} {_inline(value)}"]


def _inline(tree: Tree) -> str:
    if tree.kind is Kind.MAP:
        return "{}"
    if tree.kind is Kind.LIST:
        return f"[{', '.join(_inline(item) for item in tree.items)}]"
    if tree.kind is Kind.NULL:
        return "null"
    bare = _BARE.get(tree.kind)  # as it is where YAML reads the same spelling back
    return tree.text if bare and bare.fullmatch(tree.text) else _word(tree.text)


def _word(text: str) -> str:
    if _SAFE.fullmatch(text) and not _READ_OTHERWISE.fullmatch(text):
        return text
    return f'"{escape(text, _ESCAPED, _SHORT)}"'


register(
    Format(
        name="yaml",
        extensions=("yaml", "yml"),
        read=read,
        render=render,
        content_type="application/yaml",
        notes="YAML 1.2 (`yes`, `no` are strings), one document, `<<` merges, "
        "at most 100 alias expansions",
    )
)
