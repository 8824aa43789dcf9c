"""Declarations: from the parser's reductions to the syntax tree, made while parsing."""

from __future__ import annotations

import re
from typing import Any, Final

from lark import Token, Transformer

from cue.faults import MAX_EXPRESSION, Broken, broken_at, unsupported_at
from cue.language import literals, syntax
from cue.language.build_attributes import check_build_attributes
from cue.language.syntax import Alias, Label, Mark, Node, Unsupported, identifier_label
from readers.tree import Attribute


def place_of(first: Token | Node, *children: Node | None) -> dict[str, int]:
    line, column = first.line or 1, first.column or 1
    depth = 1 + max((child.depth for child in children if child is not None), default=0)
    if depth > MAX_EXPRESSION:
        raise broken_at(line, column, f"nested more than {MAX_EXPRESSION} deep")
    return {"line": line, "column": column, "depth": depth}


def unsupported_node(first: Token | Node, construct: str) -> Unsupported:
    return Unsupported(construct=construct, **place_of(first))


def strings(tokens: list[Token]) -> list[str]:
    try:
        return literals.read_string([str(token) for token in tokens])
    except literals.BadLiteral as error:
        raise _bad_literal(tokens[0], error) from None


def _bad_literal(token: Token, error: literals.BadLiteral) -> Broken:
    line, column = token.line or 1, token.column or 1
    if isinstance(error, literals.Bytes):
        return unsupported_at(line, column, str(error))
    return broken_at(line, column, str(error))


def alias(token: Token) -> Alias:
    """The name with the scope that declares it as a field of its own."""
    name = str(token)
    scope = syntax.Struct(names={name: Label(name)})
    return Alias(name=name, scope=scope, **place_of(token))


class ExpressionBuilder(Transformer[Token, Node]):
    """One method a rule of the grammar for expressions."""

    def number(self, parts: list[Token]) -> Node:
        try:
            value, is_int, text = literals.read_number(parts[0])
        except literals.BadLiteral as error:
            raise _bad_literal(parts[0], error) from None
        return syntax.Number(value=value, is_int=is_int, text=text, **place_of(parts[0]))

    def string(self, parts: list[Token]) -> Node:
        return syntax.Constant(value=strings(parts)[0], **place_of(parts[0]))

    def boolean(self, parts: list[Token]) -> Node:
        return syntax.Constant(value=parts[0] == "true", **place_of(parts[0]))

    def null(self, parts: list[Token]) -> Node:
        return syntax.Constant(value=None, **place_of(parts[0]))

    def bottom(self, parts: list[Token]) -> Node:
        return syntax.Bottom(**place_of(parts[0]))

    def reference(self, parts: list[Token]) -> Node:
        return syntax.Reference(name=str(parts[0]), **place_of(parts[0]))

    def interpolation(self, parts: list[Any]) -> Node:
        tokens = [part for part in parts if isinstance(part, Token)]
        texts = iter(strings(tokens))
        made = tuple(
            syntax.Constant(value=next(texts), **place_of(parts[0]))
            if isinstance(part, Token)
            else part
            for part in parts
        )
        return syntax.Interpolation(parts=made, **place_of(parts[0], *made))

    def parenthesis(self, parts: list[Any]) -> Node:
        inner: Node = parts[1]
        return syntax.Parenthesis(inner=inner, **place_of(parts[0], inner))

    def selector(self, parts: list[Any]) -> Node:
        label = identifier_label(str(parts[2]))
        return syntax.Selector(base=parts[0], label=label, **place_of(parts[0], parts[0]))

    def quoted_selector(self, parts: list[Any]) -> Node:
        label = Label(strings([parts[2]])[0])
        return syntax.Selector(base=parts[0], label=label, **place_of(parts[0], parts[0]))

    def index(self, parts: list[Any]) -> Node:
        return syntax.Index(base=parts[0], index=parts[2], **place_of(parts[0], parts[0], parts[2]))

    def slice(self, parts: list[Any]) -> Node:
        base, _, low, _, high, _ = parts
        return syntax.Slice(base=base, low=low, high=high, **place_of(base, base, low, high))

    def arguments(self, parts: list[Any]) -> Any:
        return [part for part in parts if isinstance(part, Node)]

    def call(self, parts: list[Any]) -> Node:
        function, given = parts[0], tuple(parts[2] or ())
        place = place_of(function, function, *given)
        return syntax.Call(function=function, arguments=given, **place)

    def sign(self, parts: list[Any]) -> Node:
        return syntax.Sign(operator=str(parts[0]), operand=parts[1], **place_of(parts[0], parts[1]))

    def bound(self, parts: list[Any]) -> Node:
        return syntax.Bound(
            operator=str(parts[0]), operand=parts[1], **place_of(parts[0], parts[1])
        )

    def default_mark(self, parts: list[Any]) -> Node:
        return syntax.Marked(operand=parts[1], **place_of(parts[0], parts[1]))

    def operation(self, parts: list[Any]) -> Node:
        left, operator, right = parts
        place = place_of(left, left, right)
        return syntax.Operation(operator=str(operator), left=left, right=right, **place)

    def unification(self, parts: list[Any]) -> Node:
        operands = tuple(part for part in parts if isinstance(part, Node))
        return syntax.Unification(parts=operands, **place_of(parts[0], *operands))

    def disjunction(self, parts: list[Any]) -> Node:
        alternatives = tuple(
            (True, part.operand) if isinstance(part, syntax.Marked) else (False, part)
            for part in parts
            if isinstance(part, Node)
        )
        operands = [operand for _, operand in alternatives]
        return syntax.Disjunction(alternatives=alternatives, **place_of(parts[0], *operands))

    def item(self, parts: list[Any]) -> Any:
        return parts[0]

    def aliased_item(self, parts: list[Any]) -> Node:
        return syntax.Aliased(alias=alias(parts[0]), value=parts[2], **place_of(parts[0], parts[2]))

    def rest(self, parts: list[Any]) -> Node:
        return syntax.Dots(value=parts[1], **place_of(parts[0], parts[1]))

    def guard(self, parts: list[Any]) -> Node:
        return syntax.Guard(condition=parts[1], **place_of(parts[0], parts[1]))

    def loop(self, parts: list[Any]) -> Node:
        _, first, _, second, _, source = parts
        key, value = (str(first), str(second)) if second is not None else ("", str(first))
        names: dict[str, syntax.Name] = {name: Label(name) for name in (key, value) if name}
        scope = syntax.Struct(names=names)
        place = place_of(parts[0], source)
        return syntax.Loop(key=key, value=value, source=source, scope=scope, **place)

    def clauses(self, parts: list[Any]) -> Any:
        return tuple(_clause(part) for part in parts)

    def let(self, parts: list[Any]) -> Node:
        return syntax.Let(name=str(parts[1]), value=parts[3], **place_of(parts[0], parts[3]))

    def comprehension(self, parts: list[Any]) -> Node:
        clauses, body = parts
        if isinstance(clauses[0], syntax.LetClause):
            raise broken_at(body.line, body.column, "a comprehension begins with `for` or `if`")
        place = place_of(clauses[0], *clauses, body)
        return syntax.Comprehension(clauses=clauses, body=body, **place)

    list_comprehension = comprehension

    def items(self, parts: list[Any]) -> Any:
        return [part for part in parts if isinstance(part, Node)]

    def list(self, parts: list[Any]) -> Node:
        items: list[Node] = parts[1]
        ellipses = [item for item in items if isinstance(item, syntax.Dots)]
        if ellipses and (len(ellipses) > 1 or items[-1] is not ellipses[0]):
            raise broken_at(ellipses[0].line, ellipses[0].column, "`...` ends a list")
        rest = ellipses[0].value if ellipses else None
        values = tuple(item for item in items if item not in ellipses)
        place = place_of(parts[0], *values, rest)
        return syntax.ListLiteral(items=values, is_open=bool(ellipses), rest=rest, **place)


def _clause(node: Node) -> Node:
    if isinstance(node, syntax.Let):
        scope = syntax.Struct(names={node.name: node})
        place = {"line": node.line, "column": node.column, "depth": node.depth}
        return syntax.LetClause(let=node, scope=scope, **place)
    return node


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
        return syntax.Import(name=str(name or default), path=path, **place_of(token))

    def import_one(self, parts: list[Any]) -> Any:
        return tuple(part for part in parts if isinstance(part, syntax.Import))

    import_many = import_one

    def decls(self, parts: list[Any]) -> Any:
        return [part for part in parts if isinstance(part, Node)]

    def decl(self, parts: list[Any]) -> Any:
        return parts[0]

    def embedding(self, parts: list[Any]) -> Node:
        return syntax.Embedding(value=parts[0], **place_of(parts[0], parts[0]))

    def ellipsis(self, parts: list[Any]) -> Node:
        return syntax.Dots(value=parts[1], **place_of(parts[0], parts[1]))

    def free_attribute(self, parts: list[Any]) -> None:
        return None

    def label(self, parts: list[Any]) -> Any:
        return parts[0]

    def mark(self, parts: list[Any]) -> Any:
        return _MARKS[parts[0].type]

    def aliased_label(self, parts: list[Any]) -> Any:
        return alias(parts[0]), parts[2]

    def aliased_value(self, parts: list[Any]) -> Node:
        return syntax.Aliased(alias=alias(parts[0]), value=parts[2], **place_of(parts[0], parts[2]))

    def field_value(self, parts: list[Any]) -> Any:
        return parts[0]

    def nested_struct(self, parts: list[Any]) -> Node:
        return _struct(parts[0], [parts[0]])

    def field(self, parts: list[Any]) -> Node:
        given, mark, _, value, *tokens = parts
        named, label = given if isinstance(given, tuple) else (None, given)
        attributes = tuple(attribute(token) for token in tokens)
        if isinstance(label, syntax.Interpolation | syntax.Parenthesis):
            place = place_of(label, label, value)
            if named is not None:
                return unsupported_node(named, "an alias of a computed label")
            return syntax.ComputedField(
                label=label, mark=mark or Mark.REGULAR, value=value, attributes=attributes, **place
            )
        if isinstance(label, syntax.ListLiteral):
            if named is not None:
                return unsupported_node(named, "an alias of a pattern")
            return _pattern(label, mark, value)
        return syntax.Field(
            label=_label(label),
            is_identifier=isinstance(label, syntax.Reference),
            mark=mark or Mark.REGULAR,
            value=value,
            attributes=attributes,
            alias=named,
            **place_of(label, value),
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
            raise broken_at(node.line, node.column, "this is not a label of a field")


def _pattern(label: syntax.ListLiteral, mark: Mark | None, value: Node) -> Node:
    if len(label.items) != 1 or label.is_open or mark is not None:
        raise broken_at(label.line, label.column, "a pattern is `[type]: value`")
    given = label.items[0]
    place = place_of(label, label, value)
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
        **place_of(first, *decls),
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
        raise broken_at(decl.line, decl.column, f"{name} is declared twice")
    names[name] = meaning
