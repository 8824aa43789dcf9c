"""Exchange examples and metadata in CUE as the tree that their YAML form would have.

Schemas are mapped to nodes (reference: control-plane 6.3): a type and `example` for a literal,
bounds to minimum and maximum, a disjunction of literals to `enum`, attributes to `gen`, `resolve`,
`compose` and `template`; `@const()` makes the literal before it a constant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cue import CueError, Declaration, read_declaration
from cue.scalars import Limit, Scalar, Type
from readers import Unreadable
from readers.tree import Attribute, Kind, Tree
from surfaces.trees import read_tree, tree_of

_SCHEMAS: Final = frozenset(("requestschema", "responseschema"))
_NODES: Final = frozenset(("headers", "body"))
_KINDS: Final = {Type.STRING: Kind.STRING, Type.BOOL: Kind.BOOL, Type.NULL: Kind.NULL}
_TYPES: Final = {
    Type.STRUCT: "object", Type.LIST: "array", Type.STRING: "string", Type.INT: "integer",
    Type.FLOAT: "number", Type.NUMBER: "number", Type.BOOL: "boolean", Type.NULL: "null",
}  # fmt: skip
_ARGUMENT: Final = re.compile(r'\s*+(?:"(?P<text>(?:[^"\\]++|\\.)*+)"|(?P<bare>[^",()=\s]++))')
_NAME: Final = re.compile(r"\s*+(?P<name>[A-Za-z_]\w*+)\s*+(?P<mark>[=(])")
_GAP: Final = re.compile(r"\s*+")


class CueUnsupported(Exception):
    """A CUE file that is not read, with the position of the construct."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


def read_cue(text: str, path: str) -> Tree:
    """Return the document of a CUE file, which may be JSON; raise CueUnsupported."""
    try:
        return read_tree(text, f"{path}.json")
    except Unreadable:
        pass  # no JSON, so it is CUE
    try:
        return _document(read_declaration(text, file=path), ())
    except CueError as error:
        first = error.diagnostics[0]
        reason = first.message.partition("; set CUE_BINARY")[0]
        raise CueUnsupported(reason, first.line, first.column) from None


def _refusal(at: Declaration, reason: str) -> CueUnsupported:
    return CueUnsupported(reason, at.line, at.column)


def _document(value: Declaration, path: tuple[str, ...]) -> Tree:
    """Return a concrete value; the headers and bodies of schemas become nodes."""
    if len(path) > 1 and path[-1] in _NODES and path[-2] in _SCHEMAS:
        return tree_of(_Nodes().of(value), at=_place(value))
    value = value.default or value
    line, column = value.line, value.column
    if value.scalar is not None:
        kind = _KINDS.get(value.scalar.type, Kind.NUMBER)
        return Tree(kind=kind, text=value.scalar.text, line=line, column=column)
    if value.types is Type.STRUCT:
        pairs = {
            name: _document(member.value, (*path, name.casefold()))
            for name, member in value.members.items()
            if not member.optional
        }
        return Tree(kind=Kind.MAP, pairs=pairs, line=line, column=column)
    if value.types is Type.LIST:
        return Tree(
            kind=Kind.LIST,
            items=tuple(_document(item, path) for item in value.items),
            line=line,
            column=column,
        )
    raise _refusal(value, "a value without schema must be concrete")


def _place(value: Declaration) -> Tree:
    return Tree(kind=Kind.NULL, line=value.line, column=value.column)


class _Nodes:
    """Maps declarations to the plain form of nodes."""

    def of(self, value: Declaration) -> dict[str, object]:
        if value.unknown:
            raise _refusal(value, f"{value.unknown} cannot be mapped to a schema")
        node = self._alternatives(value) if value.alternatives else self._single(value)
        for attribute in value.attributes:
            node |= self._attribute(attribute, value)
        return node

    def _single(self, value: Declaration) -> dict[str, object]:
        kind = _TYPES.get(value.types, "")
        node: dict[str, object] = {"type": kind} if kind else {}
        if value.scalar is not None:
            return node | {"example": _plain(value.scalar)}
        for limit in value.limits:
            node |= self._limit(limit, value)
        if value.types is Type.STRUCT:
            node["properties"] = {name: self.of(each.value) for name, each in value.members.items()}
            node["required"] = [name for name, each in value.members.items() if not each.optional]
        listed = value.rest or next(iter(value.items), None)
        if value.types is Type.LIST and listed is not None:
            node["items"] = self.of(listed)
        return node

    def _alternatives(self, value: Declaration) -> dict[str, object]:
        scalars = [each.scalar for each in value.alternatives]
        node: dict[str, object] = {}
        kinds = {_TYPES.get(each.types, "") for each in value.alternatives}
        if len(kinds) == 1 and (kind := kinds.pop()):
            node["type"] = kind
        if all(scalar is not None for scalar in scalars):
            node["enum"] = [_plain(scalar) for scalar in scalars if scalar is not None]
        elif value.default is None:
            raise _refusal(value, "a disjunction of types without a default")
        if value.default is not None:
            if value.default.scalar is None:
                raise _refusal(value, "a default that is not a single value")
            node["example"] = _plain(value.default.scalar)
        return node

    def _limit(self, limit: Limit, at: Declaration) -> dict[str, object]:
        operand = _plain(limit.operand)
        strict = 1 if limit.type & Type.NUMBER and not at.types & Type.FLOAT else 0
        match limit.operator:
            case ">=" | ">":
                return {"minimum": operand + strict * (limit.operator == ">")}
            case "<=" | "<":
                return {"maximum": operand - strict * (limit.operator == "<")}
            case "=~":
                return {"pattern": operand}
            case _:
                raise CueUnsupported(f"the bound {limit.operator}", limit.line, limit.column)

    def _attribute(self, attribute: Attribute, at: Declaration) -> dict[str, object]:
        body = attribute.body
        try:
            match attribute.name:
                case "gen" | "resolve":
                    return {attribute.name: dict(_named_arguments(_Arguments(body).all()))}
                case "compose":
                    return {
                        "compose": [_part(name, value) for name, value in _Arguments(body).all()]
                    }
                case "const":
                    if at.scalar is None:
                        raise _refusal(at, "@const: only a literal can be a constant")
                    return {"const": _plain(at.scalar)}
                case "template":
                    return {"template": next(_texts(_Arguments(body).all()), "")}
                case _:
                    return {}  # of another program
        except ValueError as error:
            raise _refusal(at, f"@{attribute.name}: {error}") from None


def _plain(scalar: Scalar) -> Any:
    kind = _KINDS.get(scalar.type, Kind.NUMBER)
    return Tree(kind=kind, text=scalar.text).plain()


_Argument = tuple[str, Any]  # its name or "", and a text or a list of arguments


class _Arguments:
    """Reads `kind=uuid,prefix="p"` and `"lit",gen(kind=int)`; raises ValueError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def all(self, depth: int = 0) -> list[_Argument]:
        found: list[_Argument] = []
        while self._peek() not in ("", ")"):
            found.append(self._one(depth))
            if self._peek() == ",":
                self.at += 1
            elif self._peek() not in ("", ")"):
                raise ValueError(f"unexpected {self._peek()!r}")
        return found

    def _peek(self) -> str:
        gap = _GAP.match(self.text, self.at)
        self.at = gap.end() if gap else self.at
        return self.text[self.at : self.at + 1]

    def _one(self, depth: int) -> _Argument:
        named = _NAME.match(self.text, self.at)
        if named is None:
            return "", self._value()
        self.at = named.end()
        if named["mark"] == "=":
            return named["name"], self._read_list() if self._peek() == "[" else self._value()
        if depth:
            raise ValueError("calls do not nest")
        inner = self.all(depth + 1)
        if self._peek() != ")":
            raise ValueError('a call without ")"')
        self.at += 1
        return named["name"], inner

    def _read_list(self) -> list[str]:
        self.at += 1
        found = []
        while self._peek() not in ("", "]"):
            found.append(self._value())
            if self._peek() == ",":
                self.at += 1
        if not self._peek():
            raise ValueError('a list without "]"')
        self.at += 1
        return found

    def _value(self) -> str:
        found = _ARGUMENT.match(self.text, self.at)
        if found is None:
            raise ValueError("expected a value")
        self.at = found.end()
        return found["bare"] or re.sub(r"\\(.)", r"\1", found["text"] or "")


def _named_arguments(arguments: list[_Argument]) -> Iterator[tuple[str, Any]]:
    for name, value in arguments:
        if not name:
            raise ValueError("every argument needs a name")
        yield name, _number(value) if isinstance(value, str) and name in _NUMBERS else value


_NUMBERS: Final = ("min", "max", "length")


def _number(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError("the number is too large")
    return int(text)


_DIGITS: Final = 18


def _texts(arguments: list[_Argument]) -> Iterator[str]:
    for name, value in arguments:
        if name or not isinstance(value, str):
            raise ValueError("expected a text")
        yield value


def _part(name: str, value: Any) -> str | Mapping[str, Any]:
    if not name and isinstance(value, str):
        return value
    if name in ("gen", "resolve") and isinstance(value, list):
        return {name: dict(_named_arguments(value))}
    raise ValueError("a part is a text, gen(…) or resolve(…)")
