"""Disjunctions: try each alternative, keep those that hold, know the defaults among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from cue import syntax
from cue.equality import same
from cue.faults import Fault
from cue.vertex import Choice, Conjunct, Preference, Vertex


class Completer(Protocol):
    def complete(self, vertex: Vertex) -> None: ...


@dataclass(frozen=True, slots=True)
class Use:
    """What one disjunction says of a possibility: by its own mark, and by those inside of it."""

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
                for made in self._tried(possibility, disjunction):
                    _add(found, made)
            left = found
        self.vertex.current = None
        return left

    def _tried(self, before: _Possibility, disjunction: Conjunct) -> Iterator[_Possibility]:
        assert isinstance(disjunction.expr, syntax.Disjunction)
        alternatives = disjunction.expr.alternatives
        has_default = any(marked for marked, _ in alternatives)
        for marked, alternative in alternatives:
            own = _preference(has_default=has_default, marked=marked)
            candidate = _candidate(self.vertex, before.vertex, disjunction, alternative)
            self.vertex.current = candidate
            self.evaluator.complete(candidate)
            if candidate.failed:
                self.faults.extend(first_faults(candidate))
                continue
            for choice in candidate.choices or [Choice(candidate, own, own)]:
                use = Use(own, choice.preference, choice.marked)
                yield _Possibility(choice.vertex, (*before.uses, use))


def expand(evaluator: Completer, vertex: Vertex) -> None:
    """Fill `vertex.choices` with the possibilities that hold."""
    attempt = _Attempt(evaluator, vertex)
    found = attempt.run()
    vertex.choices = list(_weighed(found, vertex.disjunctions))
    if not found:
        vertex.faults.append(_none_holds(vertex.disjunctions[0], attempt.faults))


def drop_incomplete(vertex: Vertex) -> None:
    """Of the possibilities only those that need nothing else to be known."""
    found = [
        choice for choice in vertex.choices if not choice.vertex.reasons or choice.vertex.is_patchy
    ]
    if vertex.choices and not found:
        vertex.reasons.extend(vertex.choices[0].vertex.reasons)
    vertex.choices = found


def _weighed(found: list[_Possibility], disjunctions: list[Conjunct]) -> Iterator[Choice]:
    """A disjunction none of whose defaults is left says nothing about the other alternatives."""
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


def _preference(*, has_default: bool, marked: bool) -> Preference:
    if not has_default:
        return Preference.MAYBE
    return Preference.YES if marked else Preference.NO


def _add(found: list[_Possibility], made: _Possibility) -> None:
    """Unless it is there already; a default takes the place of its equal."""
    for index, other in enumerate(found):
        if made.vertex.reasons or other.vertex.reasons:
            continue
        if same(other.vertex, made.vertex):
            if max(use.inner for use in made.uses) is Preference.YES:
                found[index] = made
            return
    found.append(made)


def first_faults(vertex: Vertex) -> list[Fault]:
    """The faults of the first member that has some."""
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
