"""What a file declares where it gives no concrete value: types, bounds, defaults and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from cue.evaluation.evaluator import Evaluator
from cue.evaluation.vertex import Conjunct, Preference, Vertex
from cue.export import CueError, diagnostics, faults, require_valid, translate_faults
from cue.faults import Budget
from cue.language.parser import parse
from cue.language.syntax import Label
from cue.scalars import Limit, Scalar, Type
from readers.tree import Attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What holds for one value.

    `scalar` is the value itself, if there is one. `alternatives` are those of a disjunction, and
    `default` is the marked one. `rest` is the type of further items of an open list. `unknown` is a
    construct that says more than this form can.
    """

    types: Type
    scalar: Scalar | None = None
    limits: tuple[Limit, ...] = ()
    members: Mapping[str, Member] = field(default_factory=dict)
    items: tuple[Declaration, ...] = ()
    rest: Declaration | None = None
    alternatives: tuple[Declaration, ...] = ()
    default: Declaration | None = None
    attributes: tuple[Attribute, ...] = ()
    unknown: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A field of a struct; `optional` if it is declared with `?`."""

    value: Declaration
    optional: bool = False


def read_declaration(text: str, *, file: str) -> Declaration:
    """Return what a file declares; raise CueError for errors and what is outside the subset."""

    def run() -> Declaration:
        root = require_valid(parse(text))
        for each in root.imports:
            raise each.refusal("an import")
        evaluator = Evaluator(Budget(len(text)))
        vertex = Vertex((), [Conjunct(root, None)])
        evaluator.complete(vertex)
        if found := list(faults(vertex)):
            raise CueError(diagnostics(found, file))
        return _DeclarationReader(evaluator).of(vertex)

    return translate_faults(run, file)


class _DeclarationReader:
    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def of(self, vertex: Vertex) -> Declaration:
        self.evaluator.budget.value(len(vertex.path))
        self.evaluator.complete(vertex)
        at = vertex if vertex.line or not vertex.conjuncts else vertex.conjuncts[0].expr
        line, column = at.line or 1, at.column or 1
        if vertex.choices:
            return Declaration(
                types=vertex.facts.types,
                alternatives=tuple(self.of(made.vertex) for made in vertex.choices),
                default=self._default(vertex),
                attributes=vertex.attributes,
                line=line,
                column=column,
            )
        facts = vertex.facts
        return Declaration(
            types=facts.scalar.type if facts.scalar else facts.types,
            scalar=facts.scalar,
            limits=tuple(facts.limits),
            members=dict(self._members(vertex)) if facts.types is Type.STRUCT else {},
            items=tuple(self.of(item) for item in vertex.items()),
            rest=self._rest(vertex),
            attributes=vertex.attributes,
            unknown=_unknown(vertex),
            line=line,
            column=column,
        )

    def _default(self, vertex: Vertex) -> Declaration | None:
        marked = [made.vertex for made in vertex.choices if made.preference is Preference.YES]
        return self.of(marked[0]) if len(marked) == 1 else None

    def _members(self, vertex: Vertex) -> Iterator[tuple[str, Member]]:
        for key, member in vertex.arcs.items():
            if isinstance(key, Label) and not key.special:
                yield key.name, Member(value=self.of(member))
        for constraint in vertex.constraints:
            label = constraint.label
            if not isinstance(label, Label) or label.special or label in vertex.arcs:
                continue
            member = Vertex((*vertex.path, label), [constraint.conjunct])
            value = replace(self.of(member), attributes=constraint.attributes)
            yield label.name, Member(value=value, optional=label not in vertex.required)

    def _rest(self, vertex: Vertex) -> Declaration | None:
        for listed in vertex.lists:
            if listed.literal.rest is not None:
                conjunct = replace(listed.conjunct, expr=listed.literal.rest)
                return self.of(Vertex((*vertex.path, listed.length), [conjunct]))
        return None


def _unknown(vertex: Vertex) -> str:
    if vertex.reasons:
        return vertex.reasons[0].message
    return f"{vertex.validators[0].name}()" if vertex.validators else ""
