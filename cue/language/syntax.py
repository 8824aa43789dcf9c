"""The syntax tree of a CUE file: plain values that know their place and how deep they nest."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from cue.faults import Broken, Fault, unsupported_at
from readers.tree import Attribute


class Mark(Enum):
    """What follows a label."""

    REGULAR = ""
    OPTIONAL = "?"
    REQUIRED = "!"


class Label(NamedTuple):
    """The name of a field. A quoted `"#a"` is a regular field, an identifier `#a` is none."""

    name: str
    special: bool = False

    @property
    def is_definition(self) -> bool:
        return self.special and self.name.startswith(("#", "_#"))

    @property
    def is_hidden(self) -> bool:
        return self.special and self.name.startswith("_")


def identifier_label(name: str) -> Label:
    return Label(name, special=name.startswith(("#", "_")))


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    line: int = 0
    column: int = 0
    depth: int = 1

    @property
    def place(self) -> dict[str, int]:
        return {"line": self.line, "column": self.column}

    def fault(self, code: str, message: str) -> Fault:
        return Fault(self.line, self.column, code, message)

    def refusal(self, construct: str) -> Broken:
        """Return the error for a construct that is outside the subset, or not certainly inside."""
        return unsupported_at(self.line, self.column, construct)


@dataclass(slots=True, eq=False, kw_only=True)
class Number(Node):
    value: Decimal
    is_int: bool
    text: str  # as JSON spells it


@dataclass(slots=True, eq=False, kw_only=True)
class Constant(Node):
    """A string, a boolean or null."""

    value: str | bool | None


@dataclass(slots=True, eq=False, kw_only=True)
class Bottom(Node):
    """`_|_`, the explicit error."""


@dataclass(slots=True, eq=False, kw_only=True)
class Unsupported(Node):
    """A construct outside the subset, by its name."""

    construct: str


@dataclass(slots=True, eq=False, kw_only=True)
class Interpolation(Node):
    parts: tuple[Node, ...]


@dataclass(slots=True, eq=False, kw_only=True)
class Reference(Node):
    name: str


@dataclass(slots=True, eq=False, kw_only=True)
class Selector(Node):
    """`base.label` or `base["label"]`."""

    base: Node
    label: Label


@dataclass(slots=True, eq=False, kw_only=True)
class Index(Node):
    base: Node
    index: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Slice(Node):
    """`base[low:high]`; a missing end is None."""

    base: Node
    low: Node | None
    high: Node | None


@dataclass(slots=True, eq=False, kw_only=True)
class Call(Node):
    """`len(x)` or `strings.ToUpper(x)`."""

    function: Node
    arguments: tuple[Node, ...]


@dataclass(slots=True, eq=False, kw_only=True)
class Known(Node):
    """A value that the evaluator has at hand: an item that `or()` chooses from."""

    vertex: Any


@dataclass(slots=True, eq=False, kw_only=True)
class Parenthesis(Node):
    inner: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Bound(Node):
    operator: str
    operand: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Sign(Node):
    """`-x`, `+x` or `!x`."""

    operator: str
    operand: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Operation(Node):
    operator: str
    left: Node
    right: Node

    @property
    def tested_operand(self) -> Node | None:
        """Return the operand of `x == _|_` or `x != _|_`; None for any other operation."""
        if self.operator not in ("==", "!="):
            return None
        if isinstance(self.right, Bottom):
            return self.left
        return self.right if isinstance(self.left, Bottom) else None


@dataclass(slots=True, eq=False, kw_only=True)
class Marked(Node):
    """`*x`; allowed as an alternative only."""

    operand: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Unification(Node):
    parts: tuple[Node, ...]


@dataclass(slots=True, eq=False, kw_only=True)
class Disjunction(Node):
    alternatives: tuple[tuple[bool, Node], ...]  # (is a default, value)


@dataclass(slots=True, eq=False, kw_only=True)
class ListLiteral(Node):
    items: tuple[Node, ...]
    is_open: bool = False
    rest: Node | None = None  # the type of further items


@dataclass(slots=True, eq=False, kw_only=True)
class Field(Node):
    label: Label
    mark: Mark
    value: Node
    is_identifier: bool = True  # not quoted, so that references may name it
    attributes: tuple[Attribute, ...] = ()
    alias: Alias | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class ComputedField(Node):
    r"""`(expression): value` or `"text \(expression)": value`."""

    label: Node
    mark: Mark
    value: Node
    attributes: tuple[Attribute, ...] = ()


@dataclass(slots=True, eq=False, kw_only=True)
class Pattern(Node):
    """`[string]: T` or `[X=string]: T`, where X is the label."""

    pattern: Node
    value: Node
    alias: Alias | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Embedding(Node):
    value: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Let(Node):
    name: str
    value: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Import(Node):
    """`import name "path"`."""

    name: str
    path: str


@dataclass(slots=True, eq=False, kw_only=True)
class Alias(Node):
    """The name of `X=label: value`, `label: X=value` and `[X=pattern]: value`.

    `scope` is a struct that declares nothing but the name.
    """

    name: str
    scope: Struct


@dataclass(slots=True, eq=False, kw_only=True)
class Aliased(Node):
    """`X=value`."""

    alias: Alias
    value: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Guard(Node):
    """`if condition`."""

    condition: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Loop(Node):
    """`for key, value in source`; `scope` declares both names."""

    key: str
    value: str
    source: Node
    scope: Struct


@dataclass(slots=True, eq=False, kw_only=True)
class LetClause(Node):
    """`let name = value` of a comprehension; `scope` declares the name."""

    let: Let
    scope: Struct


@dataclass(slots=True, eq=False, kw_only=True)
class Comprehension(Node):
    clauses: tuple[Guard | Loop | LetClause, ...]
    body: Struct


@dataclass(slots=True, eq=False, kw_only=True)
class Dots(Node):
    value: Node | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Struct(Node):
    fields: tuple[Field, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    embeddings: tuple[Embedding, ...] = ()
    lets: tuple[Let, ...] = ()
    dynamic: tuple[Comprehension | ComputedField, ...] = ()  # fields that evaluation adds
    imports: tuple[Import, ...] = ()
    is_open: bool = False  # has `...`
    unsupported: tuple[Unsupported, ...] = ()
    names: dict[str, Name] = field(default_factory=dict)  # what identifiers may name

    @property
    def is_more_than_fields(self) -> bool:
        """Whether it constrains fields that are not there."""
        return bool(self.patterns) or any(field.mark is not Mark.REGULAR for field in self.fields)

    @property
    def is_struct(self) -> bool:
        """Whether the value is a struct whatever is embedded."""
        is_bare = not self.embeddings and not any(
            isinstance(each, Comprehension) for each in self.dynamic
        )
        return is_bare or any(
            not field.label.special and field.mark is Mark.REGULAR for field in self.fields
        )


Name = Label | Let | Import
