"""Whether the fields of a struct have an order that every edition of CUE gives them."""

from __future__ import annotations

from collections.abc import Sequence

from cue.syntax import Label, Mark, Struct
from cue.vertex import Maker, Vertex


def maker(literal: Struct, *, is_referred: bool, is_added: bool) -> Maker:
    labels = tuple(
        each.label.name
        for each in literal.fields
        if each.mark is Mark.REGULAR and not each.label.special
    )
    return Maker(tuple(dict.fromkeys(labels)), is_referred, is_added)


def has_certain_order(vertex: Vertex, *, written: bool) -> bool:
    """For a loop over the fields; with `written` for the struct as text, which is stricter."""
    count = sum(1 for key in vertex.arcs if isinstance(key, Label) and not key.special)
    makers = [each for each in vertex.makers if each.labels]
    if count <= 1 or len(makers) <= 1 or _are_prefixes(makers):
        return not vertex.is_unordered or count <= 1
    if vertex.is_unordered or any(each.is_referred for each in makers):
        return False
    if len({each.is_added for each in makers}) > 1:
        return False
    return not written or all(len(each.labels) == 1 for each in makers)


def _are_prefixes(makers: Sequence[Maker]) -> bool:
    longest = max((each.labels for each in makers), key=len)
    return all(longest[: len(each.labels)] == each.labels for each in makers)
