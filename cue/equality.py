"""When two possibilities of a disjunction are one value."""

from __future__ import annotations

from cue.closing import is_closed
from cue.scalars import Facts
from cue.vertex import Vertex


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
