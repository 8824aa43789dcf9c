"""Values during evaluation: the conjuncts that must hold at one path, and what they yield."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from cue.faults import Fault
from cue.language.syntax import Alias, Label, Let, ListLiteral, Mark, Node, Struct
from cue.scalars import Facts, Type
from readers.tree import Attribute

Key = Label | int
Path = tuple[Key, ...]


class VertexState(IntEnum):
    NEW = 0
    COLLECTING = 1
    COLLECTED = 2
    COMPLETING = 3
    DONE = 4


class Preference(IntEnum):
    """Whether a possibility is a default; MAYBE if nobody marked one. The larger of two counts."""

    MAYBE = 0
    YES = 1
    NO = 2


class Closing(Enum):
    """Why a scope exists."""

    DEFINITION = "definition"  # closed, with everything below
    OWN = "own"  # the same, by the label of a field `#x` and not by a reference to it
    CLOSE = "close"  # closed here only
    UNIT = "unit"  # a struct with embeddings
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True, eq=False)
class DeclarationScope:
    """The origin of a declaration, as far as it decides which fields are allowed."""

    kind: Closing
    parent: DeclarationScope | None
    depth: int

    def is_closed(self, depth: int) -> bool:
        return self.kind in (Closing.DEFINITION, Closing.OWN) or (
            self.kind is Closing.CLOSE and depth == self.depth
        )

    def chain(self) -> Iterator[DeclarationScope]:
        """The scope itself and those around it."""
        scope: DeclarationScope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


@dataclass(frozen=True, slots=True, eq=False)
class Env:
    """The struct that identifiers are looked up in: as written, and as evaluated."""

    vertex: Vertex
    literal: Struct
    up: Env | None


@dataclass(frozen=True, slots=True, eq=False)
class Conjunct:
    """One thing that must hold: an expression and where its names mean something."""

    expr: Node
    env: Env | None
    scope: DeclarationScope | None = None
    trail: tuple[tuple[Vertex, Path], ...] = ()  # references it came through, and where
    is_cyclic: bool = False
    is_spread: bool = False  # its embeddings are conjuncts of their own
    is_added: bool = False  # by a comprehension or as a computed field


@dataclass(frozen=True, slots=True, eq=False)
class FieldConstraint:
    """What holds for a field if there is one: `a?: T` and `[pattern]: T`."""

    label: Label | Node
    conjunct: Conjunct
    attributes: tuple[Attribute, ...] = ()
    alias: Alias | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    literal: Struct
    env: Env


@dataclass(frozen=True, slots=True, eq=False)
class Maker:
    """A literal that declares fields of a struct, and how it came to it."""

    labels: tuple[str, ...]
    is_referred: bool  # by a reference or an embedding
    is_added: bool  # by a comprehension or as a computed field


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """A list as written, and how many items that makes."""

    literal: ListLiteral
    conjunct: Conjunct
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class Validator:
    """A function such as `list.MaxItems(3)` that must hold for the value; raises Broken."""

    holds: Callable[[Vertex], Fault | None]
    types: Type
    name: str
    line: int
    column: int


@dataclass(slots=True, eq=False)
class Vertex:
    path: Path
    conjuncts: list[Conjunct] = field(default_factory=list)
    state: VertexState = VertexState.NEW
    facts: Facts = field(default_factory=Facts)
    line: int = 0
    column: int = 0
    attributes: tuple[Attribute, ...] = ()
    terminals: list[Conjunct] = field(default_factory=list)
    disjunctions: list[Conjunct] = field(default_factory=list)
    embedded: list[Conjunct] = field(default_factory=list)
    dynamic: list[Conjunct] = field(default_factory=list)  # comprehensions, computed fields
    deferred: list[Conjunct] = field(default_factory=list)
    absent: set[Key] = field(default_factory=set)  # looked for while fields were still added
    copied: set[tuple[Vertex, DeclarationScope | None, bool]] = field(default_factory=set)
    arcs: dict[Key, Vertex] = field(default_factory=dict)
    constraints: list[FieldConstraint] = field(default_factory=list)
    constrained: set[tuple[FieldConstraint, Key]] = field(default_factory=set)
    required: dict[Label, Node] = field(default_factory=dict)
    declared: dict[DeclarationScope | None, list[Declared]] = field(default_factory=dict)
    lists: list[Listed] = field(default_factory=list)
    validators: list[Validator] = field(default_factory=list)
    is_undecided: bool = False  # a validator lacks a value to be asked about
    makers: list[Maker] = field(default_factory=list)  # what the order of its fields comes from
    is_mixed: bool = False  # a definition of which embeddings and others declare parts
    is_unordered: bool = False  # made from a struct without a certain order
    lets: dict[tuple[Let, Env], Vertex] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    reasons: list[Fault] = field(default_factory=list)  # why there is no value yet
    choices: list[Choice] = field(default_factory=list)
    current: Vertex | None = None  # the possibility that is being tried
    is_patchy: bool = False  # a text of which some part lacks only a field that is absent
    has_cycle: bool = False
    is_solid: bool = False  # has something that is no cycle
    has_top: bool = False  # `_` is one of its conjuncts
    failed: bool = False
    origin: Vertex | None = None  # the vertex that this one is a possibility of
    is_operand: bool = False  # stands for an expression, not for a field

    def view(self) -> Vertex:
        """Return the vertex in which to look up members: the tried alternative, or the default."""
        if self.current is not None:
            return self.current.view()
        return self.resolve_choices() or self

    def resolve_choices(self) -> Vertex | None:
        """Return the one possibility, or the one default; None when that is ambiguous."""
        if not self.choices:
            return self
        picked = self.preferred_alternatives()
        return picked[0].resolve_choices() if len(picked) == 1 else None

    def preferred_alternatives(self) -> list[Vertex]:
        defaults = [made.vertex for made in self.choices if made.preference is Preference.YES]
        return defaults or [made.vertex for made in self.choices]

    def items(self) -> list[Vertex]:
        """The members of a list, in order."""
        return [self.arcs[key] for key in sorted(key for key in self.arcs if isinstance(key, int))]

    def note(self, fault: Fault | None) -> None:
        """Add a fault, if there is one."""
        if fault is not None:
            self.faults.append(fault)

    def at(self, line: int, column: int) -> None:
        if not self.line:
            self.line, self.column = line, column


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A possibility that holds, whether it is a default, and whether it was marked as one."""

    vertex: Vertex
    preference: Preference
    marked: Preference


def scope_of(names: Struct, members: dict[Key, Vertex], path: Path, up: Env | None) -> Env:
    """Return the scope in which the names of a clause or an alias stand for known values."""
    return Env(Vertex(path, state=VertexState.DONE, arcs=members), names, up)


def maker(literal: Struct, *, is_referred: bool, is_added: bool) -> Maker:
    labels = tuple(
        each.label.name
        for each in literal.fields
        if each.mark is Mark.REGULAR and not each.label.special
    )
    return Maker(tuple(dict.fromkeys(labels)), is_referred, is_added)


def has_certain_order(vertex: Vertex, *, written: bool) -> bool:
    """Whether all editions of CUE agree on the order of the fields; `written`: also as text."""
    count = sum(1 for key in vertex.arcs if isinstance(key, Label) and not key.special)
    makers = [each for each in vertex.makers if each.labels]
    longest = max((each.labels for each in makers), key=len, default=())
    are_prefixes = all(longest[: len(each.labels)] == each.labels for each in makers)
    if count <= 1 or len(makers) <= 1 or are_prefixes:
        return not vertex.is_unordered or count <= 1
    if vertex.is_unordered or any(each.is_referred for each in makers):
        return False
    if len({each.is_added for each in makers}) > 1:
        return False
    return not written or all(len(each.labels) == 1 for each in makers)
