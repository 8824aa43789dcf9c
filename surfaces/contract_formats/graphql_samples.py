"""Samples of what a GraphQL field returns, with every field of its type."""

from __future__ import annotations

from typing import Any, Final

from graphql.language import ast

MAX_DEPTH: Final = 4
MAX_FIELDS: Final = 200  # of a sample
_SCALARS: Final[dict[str, object]] = {
    "String": "string", "ID": "1", "Int": 1, "Float": 1.0, "Boolean": True,
    "DateTime": "2024-01-31T12:00:00Z", "Date": "2024-01-31", "Time": "12:00:00Z",
    "URI": "https://example.org", "URL": "https://example.org", "JSON": {}, "JSONObject": {},
    "UUID": "00000000-0000-4000-8000-000000000000", "BigInt": "1", "Long": 1,
}  # fmt: skip
_FIELDS: Final = (
    ast.ObjectTypeDefinitionNode,
    ast.ObjectTypeExtensionNode,
    ast.InterfaceTypeDefinitionNode,
    ast.InterfaceTypeExtensionNode,
)


class SchemaTypes:
    """The types of a document by name."""

    def __init__(self, document: ast.DocumentNode) -> None:
        self.fields: dict[str, list[ast.FieldDefinitionNode]] = {}
        self.enums: dict[str, str] = {}
        self.concrete: dict[str, str] = {}  # of an interface or union, its first type
        for node in document.definitions:
            if isinstance(node, _FIELDS):
                self.fields.setdefault(node.name.value, []).extend(node.fields or ())
                for each in node.interfaces or ():
                    if isinstance(node, ast.ObjectTypeDefinitionNode):
                        self.concrete.setdefault(each.name.value, node.name.value)
            elif isinstance(node, ast.EnumTypeDefinitionNode) and node.values:
                self.enums[node.name.value] = node.values[0].name.value
            elif isinstance(node, ast.UnionTypeDefinitionNode) and node.types:
                self.concrete[node.name.value] = node.types[0].name.value

    def answer(self, field: ast.FieldDefinitionNode) -> dict[str, object]:
        """Return the response to a query of this field alone."""
        return {"data": {field.name.value: _Sample(self).of(field.type, 0)}}


class _Sample:
    def __init__(self, types: SchemaTypes) -> None:
        self.types = types
        self.left = MAX_FIELDS

    def of(self, node: ast.TypeNode, depth: int) -> Any:
        if isinstance(node, ast.NonNullTypeNode):
            return self.of(node.type, depth)
        if isinstance(node, ast.ListTypeNode):
            item = self.of(node.type, depth)
            return [] if item is None else [item]
        return self._sample_of(named_type(node), depth)

    def _sample_of(self, name: str, depth: int) -> Any:
        if name in self.types.enums:
            return self.types.enums[name]
        concrete = self.types.concrete.get(name, name)
        if concrete not in self.types.fields:
            return _SCALARS.get(name, "string")
        if depth >= MAX_DEPTH or self.left <= 0:
            return None
        made: dict[str, object] = {"__typename": concrete}
        for field in self.types.fields[concrete]:
            self.left -= 1
            if self.left < 0:
                break
            made[field.name.value] = self.of(field.type, depth + 1)
        return made


def named_type(node: ast.TypeNode) -> str:
    """Return the name of a type without its list and non-null marks."""
    while isinstance(node, ast.NonNullTypeNode | ast.ListTypeNode):
        node = node.type
    return node.name.value if isinstance(node, ast.NamedTypeNode) else ""
