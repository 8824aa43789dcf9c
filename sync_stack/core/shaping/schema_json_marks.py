"""`x-partita-secret` and `x-partita-log` of a JSON Schema, laid upon a tree.

Every subschema that may describe a value counts, also in branches that do not hold: better one
secret too many than one written in the open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import re2

from readers.tree import Kind, Tree
from sync_stack.core.shaping.flattening import Path
from sync_stack.core.shaping.schema_marks import Marks, SchemaUnusable

SECRET: Final = "x-partita-secret"  # noqa: S105 - the keyword's name
LOG: Final = "x-partita-log"
_SAME_PLACE: Final = ("allOf", "anyOf", "oneOf")
_ONE: Final = ("if", "then", "else")
_MAX_SUBSCHEMAS: Final = 300_000


def find_marks(schema: Any, tree: Tree, resolver: Any) -> Marks:
    """Raises SchemaUnusable for a mark that is neither true, false nor text, Unresolvable."""
    finder = _Finder()
    finder.lay(schema, tree, (), resolver, frozenset())
    return Marks(secrets=finder.secrets, logged=frozenset(finder.logged))


class _Finder:
    def __init__(self) -> None:
        self.secrets: dict[Path, str] = {}
        self.logged: set[Path] = set()
        self.visits = 0

    def lay(self, schema: Any, tree: Tree, path: Path, resolver: Any, seen: frozenset[int]) -> None:
        """`seen`: the subschemas applied to this very value, so that references may be circular."""
        if not isinstance(schema, Mapping) or id(schema) in seen:
            return
        self.visits += 1
        if self.visits > _MAX_SUBSCHEMAS:
            raise SchemaUnusable("the schema has too many branches")
        self.take(schema, path)
        seen |= {id(schema)}
        for inner in _beside(schema):
            self.lay(inner, tree, path, resolver, seen)
        if isinstance(schema.get("$ref"), str):
            found = resolver.lookup(schema["$ref"])
            self.lay(found.contents, tree, path, found.resolver, seen)
        for segment, inner, value in _below(schema, tree):
            self.lay(inner, value, (*path, segment), resolver, frozenset())

    def take(self, schema: Mapping[str, Any], path: Path) -> None:
        mark = schema.get(SECRET, False)
        if not isinstance(mark, (bool, str)):
            raise SchemaUnusable(f"{SECRET} is true or a text path#key")
        if mark is not False:
            named = mark if isinstance(mark, str) else ""
            self.secrets[path] = named or self.secrets.get(path, "")
        if schema.get(LOG) is True:
            self.logged.add(path)


def _beside(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Subschemas of the same value."""
    for keyword in _SAME_PLACE:
        yield from schema.get(keyword, ())
    for keyword in _ONE:
        yield schema.get(keyword)
    yield from schema.get("dependentSchemas", {}).values()


def _below(schema: Mapping[str, Any], tree: Tree) -> Iterator[tuple[str, Any, Tree]]:
    """Subschemas of the value's members."""
    if tree.kind is Kind.MAP:
        for key, value in tree.pairs.items():
            for inner in _of_member(schema, key):
                yield key, inner, value
    for index, item in enumerate(tree.items):
        prefix = schema.get("prefixItems", ())
        inner = prefix[index] if index < len(prefix) else schema.get("items")
        yield str(index), inner, item


def _of_member(schema: Mapping[str, Any], key: str) -> Iterator[Any]:
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    matching = [inner for pattern, inner in patterns.items() if re2.search(pattern, key)]
    if key in named:
        yield named[key]
    yield from matching
    if key not in named and not matching:
        yield schema.get("additionalProperties")
    yield schema.get("unevaluatedProperties")
