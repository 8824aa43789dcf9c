"""From evaluated vertices to a tree of concrete values, and to the list of what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cue.faults import Fault
from cue.scalars import Scalar, Type
from cue.syntax import Label
from cue.vertex import Path, Vertex
from readers.diagnostics import dotted
from readers.tree import Kind, Tree

_NOTHING = Tree(kind=Kind.NULL)
_KINDS = {Type.STRING: Kind.STRING, Type.BOOL: Kind.BOOL, Type.NULL: Kind.NULL}


def spelled(path: Path) -> str:
    return dotted(tuple(part if isinstance(part, int) else part.name for part in path))


def faults(vertex: Vertex) -> Iterator[Fault]:
    """Every conflict at and below a vertex, hidden fields and definitions too."""
    for fault in vertex.faults:
        yield _placed(fault, vertex)
    if vertex.failed and not vertex.choices:
        for member in vertex.arcs.values():
            yield from faults(member)


def _placed(fault: Fault, vertex: Vertex) -> Fault:
    return placed(fault.line, fault.column, fault.code, fault.message, vertex.path)


def placed(line: int, column: int, code: str, message: str, path: Path) -> Fault:
    trace = tuple(str(part if isinstance(part, int) else part.name) for part in path)
    return Fault(line, column, code, message, spelled(path), trace)


class Exporter:
    """Makes the tree; collects in `faults` what is not concrete."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def tree(self, vertex: Vertex) -> Tree:
        settled = vertex.settled()
        if vertex.faults:
            return _NOTHING  # said already
        if settled is None:
            count = len(vertex.picked())
            self._lacking(vertex, f"ambiguous: {count} alternatives hold and none is the default")
            return _NOTHING
        made = self._value(settled, vertex)
        return replace(made, line=settled.line, column=settled.column, attributes=vertex.attributes)

    def _value(self, settled: Vertex, vertex: Vertex) -> Tree:
        for reason in settled.reasons[:1]:
            self.faults.append(_placed(reason, vertex))
            return _NOTHING
        if settled.facts.scalar is not None:
            scalar = self._scalar(settled.facts.scalar, vertex)
            kind = _KINDS.get(settled.facts.scalar.type, Kind.NUMBER)
            return Tree(kind=kind, text=scalar)
        if settled.facts.types is Type.STRUCT:
            return Tree(kind=Kind.MAP, pairs=self._pairs(settled))
        if settled.facts.types is Type.LIST and settled.lists:
            items = tuple(self.tree(item) for item in settled.items())
            return Tree(kind=Kind.LIST, items=items)
        if not settled.reasons:
            self._lacking(vertex, f"no value, only {settled.facts.types.words()}")
        return _NOTHING

    def _pairs(self, vertex: Vertex) -> dict[str, Tree]:
        for label, node in vertex.required.items():
            if label not in vertex.arcs:
                path = (*vertex.path, label)
                message = f"the field {label.name} is required"
                found = placed(node.line, node.column, "missing_field", message, path)
                self.faults.append(found)
        return {
            key.name: self.tree(member)
            for key, member in vertex.arcs.items()
            if isinstance(key, Label) and not key.special
        }

    def _scalar(self, scalar: Scalar, vertex: Vertex) -> str:
        if scalar.type & Type.NUMBER and math.isinf(float(scalar.text)):
            self._lacking(vertex, "the number is too large", "out_of_range")
        return scalar.text

    def _lacking(self, vertex: Vertex, message: str, code: str = "not_concrete") -> None:
        at = vertex if vertex.line or not vertex.conjuncts else vertex.conjuncts[0].expr
        line, column = at.line or 1, at.column or 1
        self.faults.append(placed(line, column, code, message, vertex.path))
