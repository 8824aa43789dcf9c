"""Schemas and parameters of Swagger 2.0 in the form of OpenAPI 3.0."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote, unquote

from readers.tree import Kind, Tree
from surfaces.trees import NOTHING, text_of, tree_of

Warn = Callable[[str, Tree | None], None]
_OF_SCHEMA: Final = frozenset(
    """type format items default maximum exclusiveMaximum minimum exclusiveMinimum maxLength
    minLength pattern maxItems minItems uniqueItems enum multipleOf x-nullable""".split()  # noqa: SIM905
)
_MAPS_OF_SCHEMAS: Final = ("properties", "patternProperties", "definitions")
_SCHEMAS: Final = ("items", "additionalProperties", "not", "allOf", "oneOf", "anyOf")
_RENAMED: Final = {"x-nullable": "nullable", "x-example": "example", "x-oneOf": "oneOf",
                   "x-anyOf": "anyOf"}  # fmt: skip
# style and explode of a collectionFormat in a query or form; elsewhere "csv" is the usual style
_STYLES: Final = {"csv": ("form", False), "multi": ("form", True), "ssv": ("spaceDelimited", False),
                  "pipes": ("pipeDelimited", False)}  # fmt: skip


class SchemaTranslation:
    """Translates what the document `path` refers to; references in it start from `path`."""

    def __init__(self, path: str, warn: Warn) -> None:
        self.path = path
        self._warn = warn
        self._known: dict[tuple[int, str], tuple[Tree, Tree]] = {}  # aliases share their anchor

    def schema(self, tree: Tree, file: str) -> Tree:
        """Return a schema that stands in a file."""
        if tree.kind is Kind.LIST:
            made = tuple(self.schema(each, file) for each in tree.items)
            return Tree(kind=Kind.LIST, items=made, line=tree.line, column=tree.column)
        if tree.kind is not Kind.MAP:
            return tree
        key = (id(tree), file)
        if key not in self._known:
            self._known[key] = (tree, map_at(dict(self._members(tree, file)), tree))
        return self._known[key][1]

    def schema_map(self, tree: Tree | None, file: str) -> Tree:
        """Return a mapping of schemas by name, NOTHING without one."""
        if tree is None or tree.kind is not Kind.MAP:
            return tree or NOTHING
        made = {name: self.schema(each, file) for name, each in tree.pairs.items()}
        return map_at(made, tree)

    def with_schema(self, tree: Tree, file: str) -> dict[str, Tree]:
        """Return the members of a response or a body, with `schema` translated."""
        schema = tree.get("schema")
        return {**tree.pairs, "schema": self.schema(schema, file)} if schema else dict(tree.pairs)

    def _members(self, tree: Tree, file: str) -> Iterator[tuple[str, Tree]]:
        is_file = text_of(tree.get("type")) == "file"
        for written, each in tree.pairs.items():
            name = _RENAMED.get(written, written)
            if name in _MAPS_OF_SCHEMAS:
                yield name, self.schema_map(each, file)
            elif name in _SCHEMAS:
                yield name, self.schema(each, file)
            elif name == "$ref" and file != self.path and each.kind is Kind.STRING:
                yield name, tree_of(self._rebase(each.text, file), at=each)
            elif name == "discriminator" and each.kind is Kind.STRING:
                yield name, tree_of({"propertyName": each}, at=each)
            elif is_file and name == "type":
                yield name, tree_of("string", at=each)
                yield "format", tree_of("binary", at=each)
            elif not (is_file and name == "format"):
                yield name, each

    def value(self, tree: Tree, file: str, *, in_query: bool = False) -> dict[str, Tree]:
        """Return a parameter, header or field: `schema`, `style` and `example` of its keywords.

        `style` and `explode` are missing where they are the usual ones. `in_query` is also so in
        forms.
        """
        made = {key: each for key, each in tree.pairs.items() if key not in _OF_SCHEMA}
        if (sample := made.pop("x-example", None)) is not None:
            made.setdefault("example", sample)
        keywords = {key: each for key, each in tree.pairs.items() if key in _OF_SCHEMA}
        made["schema"] = self.schema(map_at(keywords, tree), file)
        written = tree.get("collectionFormat")
        kind = text_of(written) or "csv"
        if text_of(tree.get("type")) != "array" or (kind == "csv" and not in_query):
            return made
        if in_query and kind in _STYLES:
            style, explode = _STYLES[kind]
            return made | {"style": tree_of(style, at=tree), "explode": tree_of(explode, at=tree)}
        self._warn(f'the collectionFormat "{kind[:80]}" has no equal in OpenAPI 3', written)
        made["schema"] = map_at({**made["schema"].pairs, "items": tree_of({}, at=tree)}, tree)
        return made

    def place(self, reference: str, file: str) -> tuple[str, str]:
        """Return the file and the pointer of a reference that stands in a file."""
        named, _, pointer = reference.partition("#")
        if named and "://" not in named:
            file = posixpath.normpath(posixpath.join(posixpath.dirname(file), unquote(named)))
        return (named if "://" in named else file), pointer

    def _rebase(self, reference: str, file: str) -> str:
        """Return a reference that stands in another file as one of the document."""
        target, pointer = self.place(reference, file)
        if target == self.path or "://" in target:
            return f"#{pointer}" if target == self.path else reference
        return f"{quote(posixpath.relpath(target, posixpath.dirname(self.path)))}#{pointer}"


def map_at(pairs: dict[str, Tree], at: Tree) -> Tree:
    """Return a mapping with the place of another value."""
    return Tree(kind=Kind.MAP, pairs=pairs, line=at.line, column=at.column)
