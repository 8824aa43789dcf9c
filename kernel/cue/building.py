"""From the parser's reductions to the syntax tree, made while parsing so that nothing recurses."""

from __future__ import annotations

import re
from typing import Any, Final

from lark import Token, Transformer

from kernel.cue import literals, syntax
from kernel.cue.faults import MAX_EXPRESSION, Broken, broken
from kernel.cue.syntax import Label, Mark, Node, Unsupported, identifier_label
from kernel.reading.tree import Attribute

_ATTRIBUTE: Final = re.compile(r"@([^(]*)\((.*)\)\Z", re.DOTALL)
_MARKS: Final = {"QUESTION": Mark.OPTIONAL, "BANG": Mark.REQUIRED}
START: Final = Node(line=1, column=1)
FUNCTIONS: Final = frozenset({"close", "len"})


def _at(first: Token | Node, *children: Node | None) -> dict[str, int]:
    line, column = first.line or 1, first.column or 1
    depth = 1 + max((child.depth for child in children if child is not None), default=0)
    if depth > MAX_EXPRESSION:
        raise broken(line, column, f"nested more than {MAX_EXPRESSION} deep")
    return {"line": line, "column": column, "depth": depth}


def _refused(first: Token | Node, construct: str) -> Unsupported:
    return Unsupported(construct=construct, **_at(first))


def _strings(tokens: list[Token]) -> list[str]:
    try:
        return literals.read_string([str(token) for token in tokens])
    except literals.BadLiteral as error:
        raise _bad_literal(tokens[0], error) from None


def _bad_literal(token: Token, error: literals.BadLiteral) -> Broken:
    code = "unsupported_cue" if isinstance(error, literals.Bytes) else "syntax_error"
    return broken(token.line or 1, token.column or 1, str(error), code)


def attribute(token: Token) -> Attribute:
    match = _ATTRIBUTE.match(token)
    assert match is not None
    return Attribute(name=match[1], body=match[2])


class ExpressionBuilder(Transformer[Token, Node]):
    """One method a rule of the grammar for expressions."""

    def number(self, parts: list[Token]) -> Node:
        try:
            value, is_int, text = literals.read_number(parts[0])
        except literals.BadLiteral as error:
            raise _bad_literal(parts[0], error) from None
        return syntax.Number(value=value, is_int=is_int, text=text, **_at(parts[0]))

    def string(self, parts: list[Token]) -> Node:
        return syntax.Constant(value=_strings(parts)[0], **_at(parts[0]))

    def boolean(self, parts: list[Token]) -> Node:
        return syntax.Constant(value=parts[0] == "true", **_at(parts[0]))

    def null(self, parts: list[Token]) -> Node:
        return syntax.Constant(value=None, **_at(parts[0]))

    def bottom(self, parts: list[Token]) -> Node:
        return syntax.Bottom(**_at(parts[0]))

    def reference(self, parts: list[Token]) -> Node:
        return syntax.Reference(name=str(parts[0]), **_at(parts[0]))

    def interpolation(self, parts: list[Any]) -> Node:
        tokens = [part for part in parts if isinstance(part, Token)]
        texts = iter(_strings(tokens))
        made = tuple(
            syntax.Constant(value=next(texts), **_at(parts[0])) if isinstance(part, Token) else part
            for part in parts
        )
        return syntax.Interpolation(parts=made, **_at(parts[0], *made))

    def parenthesis(self, parts: list[Any]) -> Node:
        inner: Node = parts[1]
        return syntax.Parenthesis(inner=inner, **_at(parts[0], inner))

    def selector(self, parts: list[Any]) -> Node:
        label = identifier_label(str(parts[2]))
        return syntax.Selector(base=parts[0], label=label, **_at(parts[0], parts[0]))

    def quoted_selector(self, parts: list[Any]) -> Node:
        label = Label(_strings([parts[2]])[0])
        return syntax.Selector(base=parts[0], label=label, **_at(parts[0], parts[0]))

    def index(self, parts: list[Any]) -> Node:
        return syntax.Index(base=parts[0], index=parts[2], **_at(parts[0], parts[0], parts[2]))

    def slice(self, parts: list[Any]) -> Node:
        return _refused(parts[0], "a slice of a list")

    def arguments(self, parts: list[Any]) -> Any:
        return [part for part in parts if isinstance(part, Node)]

    def call(self, parts: list[Any]) -> Node:
        function, given = parts[0], parts[2] or []
        if not isinstance(function, syntax.Reference) or function.name not in FUNCTIONS:
            named = isinstance(function, syntax.Reference)
            return _refused(parts[0], f"the function {function.name}()" if named else "a call")
        if len(given) != 1:
            raise broken(function.line, function.column, f"{function.name}() takes one argument")
        return syntax.Call(function=function.name, argument=given[0], **_at(parts[0], given[0]))

    def sign(self, parts: list[Any]) -> Node:
        return syntax.Sign(operator=str(parts[0]), operand=parts[1], **_at(parts[0], parts[1]))

    def bound(self, parts: list[Any]) -> Node:
        return syntax.Bound(operator=str(parts[0]), operand=parts[1], **_at(parts[0], parts[1]))

    def marked(self, parts: list[Any]) -> Node:
        return syntax.Marked(operand=parts[1], **_at(parts[0], parts[1]))

    def negation(self, parts: list[Any]) -> Node:
        return _refused(parts[0], "the operator !")

    def operation(self, parts: list[Any]) -> Node:
        return _refused(parts[0], f"the operator {parts[1]}")

    def unification(self, parts: list[Any]) -> Node:
        operands = tuple(part for part in parts if isinstance(part, Node))
        return syntax.Unification(parts=operands, **_at(parts[0], *operands))

    def disjunction(self, parts: list[Any]) -> Node:
        alternatives = tuple(
            (True, part.operand) if isinstance(part, syntax.Marked) else (False, part)
            for part in parts
            if isinstance(part, Node)
        )
        operands = [operand for _, operand in alternatives]
        return syntax.Disjunction(alternatives=alternatives, **_at(parts[0], *operands))

    def item(self, parts: list[Any]) -> Any:
        return parts[0]

    def aliased_item(self, parts: list[Any]) -> Node:
        return _refused(parts[0], "an alias")

    def rest(self, parts: list[Any]) -> Node:
        return syntax.Dots(value=parts[1], **_at(parts[0], parts[1]))

    def list_comprehension(self, parts: list[Any]) -> Node:
        return _refused(parts[0], "a comprehension")

    def items(self, parts: list[Any]) -> Any:
        return [part for part in parts if isinstance(part, Node)]

    def list(self, parts: list[Any]) -> Node:
        items: list[Node] = parts[1]
        ellipses = [item for item in items if isinstance(item, syntax.Dots)]
        if ellipses and (len(ellipses) > 1 or items[-1] is not ellipses[0]):
            raise broken(ellipses[0].line, ellipses[0].column, "`...` ends a list")
        rest = ellipses[0].value if ellipses else None
        values = tuple(item for item in items if item not in ellipses)
        place = _at(parts[0], *values, rest)
        return syntax.ListLiteral(items=values, is_open=bool(ellipses), rest=rest, **place)


class Builder(ExpressionBuilder):
    """One method a rule of the grammar for files, structs and declarations."""

    def start(self, parts: list[Any]) -> Node:
        imports = [part for part in parts if isinstance(part, Unsupported)]
        decls = parts[-1]
        return _struct(START, [*imports, *decls])

    def package(self, parts: list[Any]) -> None:
        return None

    def import_one(self, parts: list[Any]) -> Node:
        return _refused(parts[0], "an import")

    import_many = import_one

    def import_specs(self, parts: list[Any]) -> None:
        return None

    def decls(self, parts: list[Any]) -> Any:
        return [part for part in parts if isinstance(part, Node)]

    def decl(self, parts: list[Any]) -> Any:
        return parts[0]

    def embedding(self, parts: list[Any]) -> Node:
        return syntax.Embedding(value=parts[0], **_at(parts[0], parts[0]))

    def ellipsis(self, parts: list[Any]) -> Node:
        return syntax.Dots(value=parts[1], **_at(parts[0], parts[1]))

    def let(self, parts: list[Any]) -> Node:
        return syntax.Let(name=str(parts[1]), value=parts[3], **_at(parts[0], parts[3]))

    def comprehension(self, parts: list[Any]) -> Node:
        return _refused(parts[0], "a comprehension")

    def clauses(self, parts: list[Any]) -> Any:
        return parts[0]

    clause = clauses

    def free_attribute(self, parts: list[Any]) -> None:
        return None

    def label(self, parts: list[Any]) -> Any:
        return parts[0]

    def mark(self, parts: list[Any]) -> Any:
        return _MARKS[parts[0].type]

    def aliased(self, parts: list[Any]) -> Node:
        return _refused(parts[0], "an alias")

    def field_value(self, parts: list[Any]) -> Any:
        return parts[0]

    def nested(self, parts: list[Any]) -> Node:
        return _struct(parts[0], [parts[0]])

    def field(self, parts: list[Any]) -> Node:
        label, mark, _, value, *attributes = parts
        if isinstance(label, Unsupported | syntax.Interpolation | syntax.Parenthesis):
            named = isinstance(label, Unsupported)
            return label if named else _refused(parts[0], "a computed label")
        if isinstance(label, syntax.ListLiteral):
            return _pattern(label, mark, value)
        return syntax.Field(
            label=_label(label),
            is_identifier=isinstance(label, syntax.Reference),
            mark=mark or Mark.REGULAR,
            value=value,
            attributes=tuple(attribute(token) for token in attributes),
            **_at(parts[0], value),
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
    return syntax.Pattern(pattern=label.items[0], value=value, **_at(label, label, value))


def _struct(first: Token | Node, decls: list[Node]) -> syntax.Struct:
    def of(kind: type[Any]) -> tuple[Any, ...]:
        return tuple(decl for decl in decls if isinstance(decl, kind))

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
        is_open=bool(ellipses),
        unsupported=of(Unsupported) + typed,
        names=_names(decls),
        **_at(first, *decls),
    )


def _names(decls: list[Node]) -> dict[str, Label | syntax.Let]:
    """What identifiers inside may name: fields with an identifier for a label, and lets."""
    names: dict[str, Label | syntax.Let] = {}
    for decl in decls:
        if isinstance(decl, syntax.Field) and decl.is_identifier:
            names[decl.label.name] = decl.label
        if isinstance(decl, syntax.Let):
            if decl.name in names:
                raise broken(decl.line, decl.column, f"{decl.name} is declared twice")
            names[decl.name] = decl
    return names
