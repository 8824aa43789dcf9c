"""Arguments of functions as plain values, and their results as syntax."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from cue.builtins import CallRefused, Numeric
from cue.builtins.function import MAX_ITEMS
from cue.evaluation.operands import NOT_CONCRETE, Operands, reason
from cue.evaluation.vertex import Conjunct, Vertex, has_certain_order
from cue.language import syntax
from cue.language.syntax import Label, Mark, Node
from cue.scalars import Scalar, Type

_LARGEST = 2**62


class Arguments:
    """The arguments of built-in functions, as Python values, and their results as expressions."""

    def __init__(self, operands: Operands) -> None:
        self.operands = operands
        self.unifier = operands.unifier
        self.budget = operands.budget

    def argument(self, takes: str, node: Node, conjunct: Conjunct, vertex: Vertex) -> Any:
        """The value of an argument; None, with a reason or fault noted, where there is none."""
        if takes in "sin":
            return self._scalar_argument(takes, node, conjunct, vertex)
        if takes == "c":
            return self._comparator(node, conjunct, vertex)
        found = self.operands.evaluate(node, conjunct, vertex)
        if found is None:
            return None
        wanted = {"p": Type.TOP, "o": Type.TOP, "F": Type.STRUCT}.get(takes, Type.LIST)
        if not found.facts.types & wanted:
            message = f"{found.facts.types.words()} where {wanted.words()} is required"
            vertex.faults.append(node.fault("wrong_type", message))
            return None
        return self._composite(takes, found, node, vertex)

    def _composite(self, takes: str, found: Vertex, node: Node, vertex: Vertex) -> Any:
        if takes == "F":
            return sum(1 for key in found.arcs if isinstance(key, Label) and not key.special)
        if takes in "vV":
            return self._items(found, node, vertex, nested=takes == "V")
        value = self.plain(found, node, vertex, ordered=takes == "o")
        return self._check_list(takes, value, node, vertex)

    def _scalar_argument(self, takes: str, node: Node, conjunct: Conjunct, vertex: Vertex) -> Any:
        wanted = {"s": Type.STRING, "i": Type.INT, "n": Type.NUMBER}[takes]
        found = self.operands.concrete(node, conjunct, vertex, wanted)
        if found is None:
            return None
        if takes == "s":
            return found.text
        assert isinstance(found.content, Decimal)
        if takes == "n":
            return Numeric(found.content, is_int=found.type is Type.INT)
        if abs(found.content) >= _LARGEST:
            raise node.refusal("an integer of more than 62 bits")
        return int(found.content)

    def _items(self, found: Vertex, node: Node, vertex: Vertex, *, nested: bool) -> Any:
        """A list of the items as they are; with `nested` the lists among them as lists, too."""
        if found.facts.types is not Type.LIST or not found.lists:
            vertex.reasons.append(reason(node, NOT_CONCRETE))
            return None
        made: list[Any] = []
        for item in found.items():
            self.budget.step()
            self.unifier.complete(item)
            settled = item.resolve_choices() if nested else None
            is_list = settled is not None and settled.facts.types is Type.LIST
            made.append(
                self._items(settled, node, vertex, nested=True)
                if is_list and settled is not None
                else known_node(item, node)
            )
        return made

    def _check_list(self, takes: str, value: Any, node: Node, vertex: Vertex) -> Any:
        wanted = {"S": str, "N": Numeric}.get(takes)
        if wanted is None or value is None:
            return value
        if all(isinstance(item, wanted) for item in value):
            return value
        words = "text" if takes == "S" else "a number"
        message = f"an item of the list is not {words}"
        vertex.faults.append(node.fault("wrong_type", message))
        return None

    def _comparator(self, node: Node, conjunct: Conjunct, vertex: Vertex) -> Any:
        def less(one: syntax.Known, other: syntax.Known) -> bool:
            place = node.place
            pair = _struct({"x": one, "y": other}, node)
            both = syntax.Unification(parts=(node, pair), **place)
            expr = syntax.Selector(base=both, label=Label("less"), **place)
            probe = Vertex(vertex.path, is_operand=True)
            found = self.operands.concrete(expr, conjunct, probe, Type.BOOL)
            if found is None:
                raise CallRefused("an order that is not known")
            return bool(found.content)

        return less

    def plain(self, found: Vertex, node: Node, vertex: Vertex, *, ordered: bool) -> Any:
        """The concrete value as lists, dicts and scalars; None, with the reason, without one.

        Null comes as `Null`. `ordered`: refuse structs whose fields have no certain order.
        """
        self.unifier.complete(found)
        settled = found.resolve_choices()
        self.budget.step()
        made: Any = None
        if found.failed or settled is None or settled.reasons:
            made = None
        elif settled.facts.scalar is not None:
            made = _plain_scalar(settled.facts.scalar)
        elif settled.facts.types is Type.LIST and settled.lists:
            items = [self.plain(item, node, vertex, ordered=ordered) for item in settled.items()]
            made = None if None in items else [_bare_null(item) for item in items]
        elif settled.facts.types is Type.STRUCT:
            made = self._plain_struct(settled, node, vertex, ordered=ordered)
        if made is None:
            vertex.reasons.append(reason(node, NOT_CONCRETE))
        return made

    def _plain_struct(self, settled: Vertex, node: Node, vertex: Vertex, *, ordered: bool) -> Any:
        if ordered and not has_certain_order(settled, written=True):
            raise node.refusal("a struct whose fields have no certain order")
        members = {
            key.name: self.plain(member, node, vertex, ordered=ordered)
            for key, member in settled.arcs.items()
            if isinstance(key, Label) and not key.special
        }
        if None in members.values():
            return None
        return {name: _bare_null(value) for name, value in members.items()}

    def as_node(self, value: Any, node: Node) -> Node:
        """Return the result of a function as syntax."""
        place = node.place
        match value:
            case Node():
                return value
            case Numeric(value=number, is_int=is_int):
                return syntax.Number(value=number, is_int=is_int, text=value.text, **place)
            case list():
                if len(value) > MAX_ITEMS:
                    raise node.refusal(f"a list of more than {MAX_ITEMS} items")
                items = tuple(self.as_node(item, node) for item in value)
                return list_of(items, node)
            case dict():
                members = {name: self.as_node(item, node) for name, item in value.items()}
                return _struct(members, node)
            case _:
                self.budget.text(len(value) if isinstance(value, str) else 1)
                return syntax.Constant(value=value, **place)


def list_of(items: tuple[Node, ...], node: Node) -> Node:
    return syntax.ListLiteral(items=items, line=node.line, column=node.column)


def _struct(members: Mapping[str, Node], node: Node) -> Node:
    line, column = node.line, node.column
    fields = tuple(
        syntax.Field(label=Label(name), mark=Mark.REGULAR, value=value, line=line, column=column)
        for name, value in members.items()
    )
    return syntax.Struct(fields=fields, line=line, column=column)


class Null:
    """Null as an argument, so that None can mean that there is none."""

    value = None


def _bare_null(value: Any) -> Any:
    return None if isinstance(value, Null) else value


def _plain_scalar(scalar: Scalar) -> Any:
    if scalar.type is Type.NULL:
        return Null()
    if isinstance(scalar.content, Decimal):
        return Numeric(scalar.content, is_int=scalar.type is Type.INT)
    return scalar.content


def known_node(vertex: Vertex, node: Node) -> syntax.Known:
    return syntax.Known(vertex=vertex, line=node.line, column=node.column)
