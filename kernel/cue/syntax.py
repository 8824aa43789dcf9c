"""The syntax tree of a CUE file: plain values that know their place and how deep they nest."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

from kernel.reading.tree import Attribute


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
class Call(Node):
    """`close(x)` or `len(x)`."""

    function: str
    argument: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Parenthesis(Node):
    inner: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Bound(Node):
    operator: str
    operand: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Sign(Node):
    operator: str
    operand: Node


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


@dataclass(slots=True, eq=False, kw_only=True)
class Pattern(Node):
    """`[string]: T`."""

    pattern: Node
    value: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Embedding(Node):
    value: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Let(Node):
    name: str
    value: Node


@dataclass(slots=True, eq=False, kw_only=True)
class Dots(Node):
    value: Node | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Struct(Node):
    fields: tuple[Field, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    embeddings: tuple[Embedding, ...] = ()
    lets: tuple[Let, ...] = ()
    is_open: bool = False  # has `...`
    unsupported: tuple[Unsupported, ...] = ()
    names: dict[str, Label | Let] = field(default_factory=dict)  # what identifiers may name

    @property
    def is_more_than_fields(self) -> bool:
        """Whether it constrains fields that are not there."""
        return bool(self.patterns) or any(field.mark is not Mark.REGULAR for field in self.fields)

    @property
    def is_struct(self) -> bool:
        """Whether the value is a struct whatever is embedded."""
        return not self.embeddings or any(
            not field.label.special and field.mark is Mark.REGULAR for field in self.fields
        )
