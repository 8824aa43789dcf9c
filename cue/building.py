"""Declarations: from the parser's reductions to the syntax tree, made while parsing."""

from __future__ import annotations

import re
from typing import Any, Final

from lark import Token

from cue import syntax
from cue.build_attributes import check_build_attributes
from cue.expressions import ExpressionBuilder, alias, placed, refused, strings
from cue.faults import broken
from cue.syntax import Label, Mark, Node, Unsupported, identifier_label
from readers.tree import Attribute

_ATTRIBUTE: Final = re.compile(r"@([^(]*)\((.*)\)\Z", re.DOTALL)
_MARKS: Final = {"QUESTION": Mark.OPTIONAL, "BANG": Mark.REQUIRED}
START: Final = Node(line=1, column=1)


def attribute(token: Token) -> Attribute:
    match = _ATTRIBUTE.match(token)
    assert match is not None
    return Attribute(name=match[1], body=match[2])


class Builder(ExpressionBuilder):
    """One method a rule of the grammar for files, structs and declarations."""

    def start(self, parts: list[Any]) -> Node:
        tokens = [part for part in parts if isinstance(part, Token) and part.type == "ATTRIBUTE"]
        check_build_attributes([(token, attribute(token)) for token in tokens])
        imports = [each for part in parts if isinstance(part, tuple) for each in part]
        return _struct(START, [*imports, *parts[-1]])

    def package(self, parts: list[Any]) -> None:
        return None

    def import_spec(self, parts: list[Any]) -> Node:
        name, token = parts
        path = strings([token])[0]
        default = path.rpartition("/")[2].rpartition(":")[2]
        return syntax.Import(name=str(name or default), path=path, **placed(token))

    def import_one(self, parts: list[Any]) -> Any:
        return tuple(part for part in parts if isinstance(part, syntax.Import))

    import_many = import_one

    def decls(self, parts: list[Any]) -> Any:
        return [part for part in parts if isinstance(part, Node)]

    def decl(self, parts: list[Any]) -> Any:
        return parts[0]

    def embedding(self, parts: list[Any]) -> Node:
        return syntax.Embedding(value=parts[0], **placed(parts[0], parts[0]))

    def ellipsis(self, parts: list[Any]) -> Node:
        return syntax.Dots(value=parts[1], **placed(parts[0], parts[1]))

    def free_attribute(self, parts: list[Any]) -> None:
        return None

    def label(self, parts: list[Any]) -> Any:
        return parts[0]

    def mark(self, parts: list[Any]) -> Any:
        return _MARKS[parts[0].type]

    def aliased_label(self, parts: list[Any]) -> Any:
        return alias(parts[0]), parts[2]

    def aliased_value(self, parts: list[Any]) -> Node:
        return syntax.Aliased(alias=alias(parts[0]), value=parts[2], **placed(parts[0], parts[2]))

    def field_value(self, parts: list[Any]) -> Any:
        return parts[0]

    def nested(self, parts: list[Any]) -> Node:
        return _struct(parts[0], [parts[0]])

    def field(self, parts: list[Any]) -> Node:
        given, mark, _, value, *tokens = parts
        named, label = given if isinstance(given, tuple) else (None, given)
        attributes = tuple(attribute(token) for token in tokens)
        if isinstance(label, syntax.Interpolation | syntax.Parenthesis):
            place = placed(label, label, value)
            if named is not None:
                return refused(named, "an alias of a computed label")
            return syntax.ComputedField(
                label=label, mark=mark or Mark.REGULAR, value=value, attributes=attributes, **place
            )
        if isinstance(label, syntax.ListLiteral):
            if named is not None:
                return refused(named, "an alias of a pattern")
            return _pattern(label, mark, value)
        return syntax.Field(
            label=_label(label),
            is_identifier=isinstance(label, syntax.Reference),
            mark=mark or Mark.REGULAR,
            value=value,
            attributes=attributes,
            alias=named,
            **placed(label, value),
        )

    def struct(self, parts: list[Any]) -> Node:
        return _struct(parts[0], parts[1])


def _label(node: Node) -> Label:
    match node:
        case syntax.Reference(name=name) if name != "_":
            return identifier_label(name)
        case syntax.Constant(value=str(text)):
            return Label(text)
        case _:
            raise broken(node.line, node.column, "this is no label of a field")


def _pattern(label: syntax.ListLiteral, mark: Mark | None, value: Node) -> Node:
    if len(label.items) != 1 or label.is_open or mark is not None:
        raise broken(label.line, label.column, "a pattern is `[type]: value`")
    given = label.items[0]
    place = placed(label, label, value)
    if isinstance(given, syntax.Aliased):
        return syntax.Pattern(pattern=given.value, value=value, alias=given.alias, **place)
    return syntax.Pattern(pattern=given, value=value, alias=None, **place)


def _struct(first: Token | Node, decls: list[Node]) -> syntax.Struct:
    def of(*kinds: type[Any]) -> tuple[Any, ...]:
        return tuple(decl for decl in decls if isinstance(decl, kinds))

    ellipses = of(syntax.Dots)
    typed = tuple(
        Unsupported(construct="`...` with a type in a struct", line=dots.line, column=dots.column)
        for dots in ellipses
        if dots.value is not None
    )
    return syntax.Struct(
        fields=of(syntax.Field),
        patterns=of(syntax.Pattern),
        embeddings=of(syntax.Embedding),
        lets=of(syntax.Let),
        dynamic=of(syntax.Comprehension, syntax.ComputedField),
        imports=of(syntax.Import),
        is_open=bool(ellipses),
        unsupported=of(Unsupported) + typed,
        names=_names(decls),
        **placed(first, *decls),
    )


def _names(decls: list[Node]) -> dict[str, syntax.Name]:
    """What identifiers inside may name: fields with an identifier or alias, lets and imports."""
    names: dict[str, syntax.Name] = {}
    for decl in decls:
        if isinstance(decl, syntax.Field) and decl.is_identifier:
            names[decl.label.name] = decl.label
    for decl in decls:
        if isinstance(decl, syntax.Let | syntax.Import):
            _declare(names, decl.name, decl, decl)
        elif isinstance(decl, syntax.Field) and decl.alias is not None:
            _declare(names, decl.alias.name, decl.label, decl)
    return names


def _declare(names: dict[str, syntax.Name], name: str, meaning: syntax.Name, decl: Node) -> None:
    if name in names:
        raise broken(decl.line, decl.column, f"{name} is declared twice")
    names[name] = meaning
