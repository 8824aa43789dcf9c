"""Disjunctions: each alternative is tried; those that hold are kept, with their preference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from cue.evaluation.closedness import is_closed
from cue.evaluation.cycles import WITHOUT_END, depends_on_itself
from cue.evaluation.vertex import Choice, Closing, Conjunct, Preference, Vertex
from cue.faults import Fault
from cue.language import syntax
from cue.language.syntax import Label
from cue.scalars import Facts


class Completer(Protocol):
    def complete(self, vertex: Vertex) -> None: ...


@dataclass(frozen=True, slots=True)
class Use:
    """The preference of a possibility in one disjunction: its own mark, and those inside it."""

    own: Preference
    inner: Preference
    marked: Preference


@dataclass(slots=True)
class _Possibility:
    vertex: Vertex
    uses: tuple[Use, ...]


@dataclass(slots=True)
class _Attempt:
    """All disjunctions of one vertex, tried one after the other on what the earlier ones left."""

    evaluator: Completer
    vertex: Vertex
    faults: list[Fault] = field(default_factory=list)

    def run(self) -> list[_Possibility]:
        left = [_Possibility(self.vertex, ())]
        for disjunction in self.vertex.disjunctions:
            found: list[_Possibility] = []
            for possibility in left:
                for made in self._try_alternatives(possibility, disjunction):
                    _add(found, made)
            left = found
        self.vertex.current = None
        return left

    def _try_alternatives(
        self, before: _Possibility, disjunction: Conjunct
    ) -> Iterator[_Possibility]:
        assert isinstance(disjunction.expr, syntax.Disjunction)
        alternatives = disjunction.expr.alternatives
        has_default = any(marked for marked, _ in alternatives)
        for marked, alternative in alternatives:
            own = Preference.MAYBE
            if has_default:
                own = Preference.YES if marked else Preference.NO
            candidate = _candidate(self.vertex, before.vertex, disjunction, alternative)
            self.vertex.current = candidate
            self.evaluator.complete(candidate)
            if candidate.failed:
                faults = first_faults(candidate)
                if _is_endless_by_two_names(disjunction, faults):
                    raise depends_on_itself(alternative)
                self.faults.extend(faults)
                continue
            for choice in candidate.choices or [Choice(candidate, own, own)]:
                use = Use(own, choice.preference, choice.marked)
                yield _Possibility(choice.vertex, (*before.uses, use))


def _is_endless_by_two_names(disjunction: Conjunct, faults: Iterable[Fault]) -> bool:
    """Whether an alternative contains itself, and a definition is another name of the value.

    v0.14 then takes it for one that ends (`a: [a] | true, #B: a`).
    """
    scopes = disjunction.scope.chain() if disjunction.scope else ()
    is_of_definition = any(each.kind is Closing.DEFINITION for each in scopes)
    is_endless = any(fault.message == WITHOUT_END for fault in faults)
    if not (is_endless and is_of_definition and disjunction.trail):
        return False
    target, _ = disjunction.trail[-1]
    last = target.path[-1] if target.path else 0
    return not (isinstance(last, Label) and last.is_definition)


def expand(evaluator: Completer, vertex: Vertex) -> None:
    """Fill `vertex.choices` with the alternatives that hold."""
    attempt = _Attempt(evaluator, vertex)
    found = attempt.run()
    vertex.choices = list(_weigh(found, vertex.disjunctions))
    if not found:
        vertex.faults.append(_none_holds(vertex.disjunctions[0], attempt.faults))


def drop_incomplete(vertex: Vertex) -> None:
    """Drop the possibilities that need further values to be known, but not those of a validator."""
    found = [choice for choice in vertex.choices if _may_stay(choice.vertex)]
    if vertex.choices and not found:
        vertex.reasons.extend(vertex.choices[0].vertex.reasons)
    vertex.choices = found


def _may_stay(vertex: Vertex) -> bool:
    """Whether a possibility counts: a validator of a value that is not known is one, as `>3` is."""
    return not vertex.reasons or vertex.is_patchy or vertex.is_undecided


def _weigh(found: list[_Possibility], disjunctions: list[Conjunct]) -> Iterator[Choice]:
    """Yield the choices; a disjunction whose defaults all failed states no preference."""
    columns = [[made.uses[at] for made in found] for at in range(len(disjunctions))]
    own = [any(use.own is Preference.YES for use in column) for column in columns]
    inner = [any(use.marked is Preference.YES for use in column) for column in columns]
    for made in found:
        preference = marked = Preference.MAYBE
        for at, use in enumerate(made.uses):
            marked = max(marked, use.own, use.inner)
            if inner[at]:
                preference = max(preference, use.own, use.marked)
            elif own[at] or use.own is Preference.MAYBE:
                preference = max(preference, use.own, use.inner)
        yield Choice(made.vertex, preference, marked)


def _candidate(
    vertex: Vertex, before: Vertex, disjunction: Conjunct, alternative: syntax.Node
) -> Vertex:
    chosen = Conjunct(
        alternative,
        disjunction.env,
        disjunction.scope,
        disjunction.trail,
        disjunction.is_cyclic,
    )
    candidate = Vertex(vertex.path, [*before.terminals, chosen])
    candidate.origin = vertex.origin or vertex
    candidate.is_operand = vertex.is_operand
    candidate.attributes = vertex.attributes
    candidate.reasons = list(before.reasons)
    candidate.has_cycle = before.has_cycle
    return candidate


def _add(found: list[_Possibility], made: _Possibility) -> None:
    """Add a possibility unless its equal is there; a default replaces its equal."""
    for index, other in enumerate(found):
        if made.vertex.reasons or other.vertex.reasons:
            continue
        if same(other.vertex, made.vertex):
            if max(use.inner for use in made.uses) is Preference.YES:
                found[index] = made
            return
    found.append(made)


def first_faults(vertex: Vertex) -> list[Fault]:
    """Return the faults of the vertex or of its first member with faults."""
    if vertex.faults:
        return vertex.faults
    failed = next((member for member in vertex.arcs.values() if member.failed), None)
    return first_faults(failed) if failed is not None else []


def _none_holds(disjunction: Conjunct, faults: Iterable[Fault]) -> Fault:
    node = disjunction.expr
    assert isinstance(node, syntax.Disjunction)
    last = max(faults, key=lambda fault: fault.line, default=None)
    constants = all(isinstance(value, syntax.Constant) for _, value in node.alternatives)
    line, column = (last.line, last.column) if last else (node.line, node.column)
    code = "bad_enum" if constants else "conflict"
    message = f"none of the {len(node.alternatives)} alternatives holds"
    if constants:
        known = [str(getattr(value, "value", "")) for _, value in node.alternatives]
        message = f"must be one of: {', '.join(known)}"
    elif last:
        message += f": {last.message}"
    return Fault(line, column, code, message)


def same(one: Vertex, other: Vertex) -> bool:
    """Whether two possibilities are the same value."""
    if not _same_facts(one.facts, other.facts):
        return False
    if _has_typed_rest(one) or _has_typed_rest(other):
        return False
    if one.reasons or other.reasons or len(one.choices) != len(other.choices):
        return False
    return _same_members(one, other) and all(
        same(mine.vertex, yours.vertex) and mine.preference is yours.preference
        for mine, yours in zip(one.choices, other.choices, strict=True)
    )


def _has_typed_rest(vertex: Vertex) -> bool:
    return any(each.literal.rest is not None for each in vertex.lists)


def _same_facts(left: Facts, right: Facts) -> bool:
    if left.scalar is not None and right.scalar is not None:
        return left.scalar.equals(right.scalar)
    if left.types != right.types:
        return False
    bounds = {str(bound) for bound in left.limits} == {str(bound) for bound in right.limits}
    return bounds and left.scalar is right.scalar


def _same_members(one: Vertex, other: Vertex) -> bool:
    if one.arcs.keys() != other.arcs.keys() or _shape(one) != _shape(other):
        return False
    return all(same(member, other.arcs[key]) for key, member in one.arcs.items())


def _shape(vertex: Vertex) -> tuple[bool, set[int]]:
    """Whether a struct is closed, and the literals that say more of fields it does not have."""
    literals = (declared.literal for found in vertex.declared.values() for declared in found)
    return is_closed(vertex), {id(literal) for literal in literals if literal.is_more_than_fields}
