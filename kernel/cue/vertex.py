"""Values in the making: what must hold at one path, and what has come of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

from kernel.cue.faults import Fault
from kernel.cue.scalars import Facts
from kernel.cue.syntax import Label, ListLiteral, Node, Struct
from kernel.reading.tree import Attribute

Key = Label | int
Path = tuple[Key, ...]


class State(IntEnum):
    NEW = 0
    COLLECTING = 1
    COLLECTED = 2
    COMPLETING = 3
    DONE = 4


class Preference(IntEnum):
    """Whether a possibility is a default; MAYBE where nobody marked one."""

    MAYBE = 0
    NO = 1
    YES = 2

    def combined(self, other: Preference) -> Preference:
        return Preference.NO if Preference.NO in (self, other) else max(self, other)


class Closing(Enum):
    """Why a scope exists."""

    DEFINITION = "definition"  # closed, with everything below
    CLOSE = "close"  # closed here only
    UNIT = "unit"  # a struct with embeddings
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """Where a declaration came from, as far as it matters to which fields are allowed."""

    kind: Closing
    parent: Scope | None
    depth: int

    def is_closed(self, depth: int) -> bool:
        return self.kind is Closing.DEFINITION or (
            self.kind is Closing.CLOSE and depth == self.depth
        )


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
    scope: Scope | None = None
    trail: tuple[tuple[Vertex, Path], ...] = ()  # references it came through, and where
    is_cyclic: bool = False
    is_spread: bool = False  # its embeddings are conjuncts of their own


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """What holds for a field if there is one: `a?: T` and `[pattern]: T`."""

    label: Label | Node
    conjunct: Conjunct
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    literal: Struct
    env: Env


@dataclass(slots=True, eq=False)
class Vertex:
    path: Path
    conjuncts: list[Conjunct] = field(default_factory=list)
    state: State = State.NEW
    facts: Facts = field(default_factory=Facts)
    line: int = 0
    column: int = 0
    attributes: tuple[Attribute, ...] = ()
    terminals: list[Conjunct] = field(default_factory=list)
    disjunctions: list[Conjunct] = field(default_factory=list)
    deferred: list[Conjunct] = field(default_factory=list)
    copied: set[tuple[Vertex, Scope | None, bool]] = field(default_factory=set)
    arcs: dict[Key, Vertex] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)
    required: dict[Label, Node] = field(default_factory=dict)
    declared: dict[Scope | None, list[Declared]] = field(default_factory=dict)
    lists: list[tuple[ListLiteral, Conjunct]] = field(default_factory=list)
    lets: dict[str, Vertex] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    reasons: list[Fault] = field(default_factory=list)  # why there is no value yet
    choices: list[tuple[Vertex, Preference]] = field(default_factory=list)
    current: Vertex | None = None  # the possibility that is being tried
    has_cycle: bool = False
    is_solid: bool = False  # has something that is no cycle
    is_missing: bool = False  # refers to something that is not there
    failed: bool = False

    def view(self) -> Vertex:
        """Where members are looked up: the possibility that is tried, or the default."""
        if self.current is not None:
            return self.current.view()
        return self.settled() or self

    def settled(self) -> Vertex | None:
        """The one possibility, or the one default; None when that is ambiguous."""
        if not self.choices:
            return self
        picked = self.picked()
        return picked[0].settled() if len(picked) == 1 else None

    def picked(self) -> list[Vertex]:
        defaults = [vertex for vertex, preference in self.choices if preference is Preference.YES]
        return defaults or [vertex for vertex, _ in self.choices]

    def at(self, line: int, column: int) -> None:
        if not self.line:
            self.line, self.column = line, column
