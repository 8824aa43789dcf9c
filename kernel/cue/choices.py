"""Disjunctions: try each alternative, keep those that hold, know the defaults among them."""

from __future__ import annotations

from typing import Protocol

from kernel.cue import syntax
from kernel.cue.faults import Fault
from kernel.cue.vertex import Conjunct, Preference, Vertex

Possibility = tuple[Vertex, Preference]


class Completer(Protocol):
    def complete(self, vertex: Vertex) -> None: ...


def expand(evaluator: Completer, vertex: Vertex) -> None:
    """Fill `vertex.choices` from its first disjunction; the others are tried inside of each."""
    first, *others = vertex.disjunctions
    assert isinstance(first.expr, syntax.Disjunction)
    has_default = any(marked for marked, _ in first.expr.alternatives)
    found: list[Possibility] = []
    faults: list[Fault] = []
    for marked, alternative in first.expr.alternatives:
        candidate = _candidate(vertex, first, alternative, others)
        vertex.current = candidate
        evaluator.complete(candidate)
        if candidate.failed or candidate.is_missing:
            faults.extend(first_faults(candidate) or candidate.reasons)
            continue
        for leaf, nested in candidate.choices or [(candidate, Preference.MAYBE)]:
            _add(found, leaf, _preference(has_default=has_default, marked=marked).combined(nested))
    vertex.current = None
    vertex.choices = found
    if not found:
        vertex.faults.append(_none_holds(first, faults))


def _candidate(
    vertex: Vertex, disjunction: Conjunct, alternative: syntax.Node, others: list[Conjunct]
) -> Vertex:
    chosen = Conjunct(
        alternative,
        disjunction.env,
        disjunction.scope,
        disjunction.trail,
        disjunction.is_cyclic,
    )
    candidate = Vertex(vertex.path, [*vertex.terminals, chosen, *others])
    candidate.attributes = vertex.attributes
    candidate.has_cycle = vertex.has_cycle
    return candidate


def _preference(*, has_default: bool, marked: bool) -> Preference:
    if not has_default:
        return Preference.MAYBE
    return Preference.YES if marked else Preference.NO


def _add(found: list[Possibility], leaf: Vertex, preference: Preference) -> None:
    for index, (other, earlier) in enumerate(found):
        if same(other, leaf):
            found[index] = (other, max(earlier, preference))
            return
    found.append((leaf, preference))


def same(one: Vertex, other: Vertex) -> bool:
    """Whether two possibilities are the same value."""
    left, right = one.facts, other.facts
    if left.scalar is not None and right.scalar is not None:
        return left.scalar.equals(right.scalar)
    if left.types != right.types or (left.scalar is None) != (right.scalar is None):
        return False
    if {str(bound) for bound in left.limits} != {str(bound) for bound in right.limits}:
        return False
    if one.reasons or other.reasons or len(one.choices) != len(other.choices):
        return False
    return _same_members(one, other) and all(
        same(mine, yours) and a is b
        for (mine, a), (yours, b) in zip(one.choices, other.choices, strict=True)
    )


def _same_members(one: Vertex, other: Vertex) -> bool:
    if one.arcs.keys() != other.arcs.keys():
        return False
    return all(same(member, other.arcs[key]) for key, member in one.arcs.items())


def first_faults(vertex: Vertex) -> list[Fault]:
    """The faults of the first member that has some."""
    if vertex.faults:
        return vertex.faults
    failed = next((member for member in vertex.arcs.values() if member.failed), None)
    return first_faults(failed) if failed is not None else []


def _none_holds(disjunction: Conjunct, faults: list[Fault]) -> Fault:
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
