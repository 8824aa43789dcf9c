"""Values of expressions that need those of their operands: operators, calls, slices, text."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from cue.builtins import BuiltinConstant, CallRefused, Failed, Function, Numeric
from cue.builtins.function import spell
from cue.evaluation.arguments import Arguments, Null, known_node, list_of
from cue.evaluation.operands import NOT_CONCRETE, OPEN, Operands, bare, reason
from cue.evaluation.vertex import Conjunct, Validator, Vertex, VertexState
from cue.faults import Fault
from cue.language import syntax
from cue.language.parser import parse_expression
from cue.language.syntax import Label, Node
from cue.operators import operate
from cue.scalars import Scalar, Type

Found = Scalar | Validator | Node | Fault | None
_IN_TEXT = Type.STRING | Type.NUMBER | Type.BOOL
_SHOWN = frozenset("sinpoSN")  # what a validator takes as a plain value
_SIZED = Type.STRING | Type.LIST | Type.STRUCT


class Operations:
    """The values of computed expressions: operators, interpolations, slices and calls."""

    def __init__(self, operands: Operands, *, shows_values: bool) -> None:
        self.operands = operands
        self.shows_values = shows_values
        self.unifier = operands.unifier
        self.budget = operands.budget
        self.arguments = Arguments(operands)

    def compute(self, node: Node, conjunct: Conjunct, vertex: Vertex) -> Found:
        """Return a scalar, a constraint or what must hold; None, with the reason, while unknown."""
        match node:
            case syntax.Sign():
                return self._sign(node, conjunct, vertex)
            case syntax.Interpolation():
                return self._interpolate(node, conjunct, vertex)
            case syntax.Operation():
                return self._operation(node, conjunct, vertex)
            case syntax.Slice():
                return self._slice(node, conjunct, vertex)
            case syntax.Call() | syntax.Selector():
                return self._call(node, conjunct, vertex)
            case _:
                raise node.refusal("this expression")

    def _sign(self, node: syntax.Sign, conjunct: Conjunct, vertex: Vertex) -> Found:
        wanted = Type.BOOL if node.operator == "!" else Type.NUMBER
        found = self.operands.concrete(node.operand, conjunct, vertex, wanted)
        if found is None:
            return None
        if node.operator == "!":
            return _boolean(node, holds=not found.content)
        if node.operator == "+" or not isinstance(found.content, Decimal) or not found.content:
            return Scalar(found.type, found.content, found.text, node.line, node.column)
        text = found.text[1:] if found.text.startswith("-") else f"-{found.text}"
        return Scalar(found.type, found.content.copy_negate(), text, node.line, node.column)

    def _interpolate(
        self, node: syntax.Interpolation, conjunct: Conjunct, vertex: Vertex
    ) -> Scalar | None:
        texts = []
        for part in node.parts:
            known = len(vertex.reasons)
            found = self.operands.concrete(part, conjunct, vertex, _IN_TEXT)
            if found is None:
                is_absent = any(each.message not in OPEN for each in vertex.reasons[known:])
                vertex.is_patchy = is_absent and isinstance(bare(part), syntax.Unification)
                return None
            texts.append(found.text)
        self.budget.text(sum(map(len, texts)))
        text = "".join(texts)
        return Scalar(Type.STRING, text, text, node.line, node.column)

    def _operation(self, node: syntax.Operation, conjunct: Conjunct, vertex: Vertex) -> Found:
        tested = node.tested_operand
        if tested is not None:
            exists = self._exists(tested, conjunct, vertex)
            return _boolean(node, holds=exists is (node.operator == "!="))
        sides = [self.operands.evaluate(side, conjunct, vertex) for side in (node.left, node.right)]
        left, right = sides
        if left is None or right is None:
            return None
        if left.facts.types is right.facts.types is Type.LIST:
            return self._compare_lists(node, left, right, vertex)
        scalars = [side.facts.scalar for side in (left, right)]
        for side, scalar, given in zip(
            (left, right), scalars, (node.left, node.right), strict=True
        ):
            if scalar is None:
                return _no_operand(node, given, side, vertex)
        assert scalars[0] is not None
        assert scalars[1] is not None
        found = operate(node.operator, scalars[0], scalars[1], node.line, node.column)
        if isinstance(found, Scalar) and found.type is Type.STRING:
            self.budget.text(len(found.text))
        return found

    def _compare_lists(
        self, node: syntax.Operation, left: Vertex, right: Vertex, vertex: Vertex
    ) -> Found:
        if node.operator not in ("==", "!="):
            raise node.refusal(f"the operator {node.operator} between lists")
        pair = [self.arguments.plain(side, node, vertex, ordered=False) for side in (left, right)]
        if None in pair:
            return None
        kinds = [
            [item.is_int if isinstance(item, Numeric) else type(item) for item in side]
            for side in pair
            if isinstance(side, list)
        ]
        if any(kind in (dict, list) for kind in (*kinds[0], *kinds[1])):
            raise node.refusal(f"the operator {node.operator} between lists of lists or structs")
        if kinds[0] != kinds[1] and pair[0] == pair[1]:
            raise node.refusal(f"the operator {node.operator} between unlike numbers")
        return _boolean(node, holds=(pair[0] == pair[1]) is (node.operator == "=="))

    def _exists(self, expr: Node, conjunct: Conjunct, vertex: Vertex) -> bool:
        """Whether `expr != _|_`: a field that is there, whose value is one or may become one."""
        probe = Vertex(vertex.path, is_operand=vertex.is_operand)
        found = self.operands.operand(bare(expr), conjunct, probe)
        if found is None:
            return False
        self.unifier.collect(found)
        if found.state is VertexState.COLLECTING or found.current is not None:
            raise expr.refusal("a value that depends on itself")
        if found.failed and not found.faults:
            raise expr.refusal("a test of a value with an error inside")
        settled = found.resolve_choices()
        if settled is None:
            return not found.faults
        return not found.faults and not settled.reasons and self._is_there(expr, settled)

    def _is_there(self, expr: Node, settled: Vertex) -> bool:
        facts = settled.facts
        if facts.scalar is not None or facts.types in (Type.LIST, Type.STRUCT, Type.NULL):
            return True
        if facts.types is Type.TOP:
            return not facts.limits
        if facts.types & (facts.types - 1) and facts.types is not Type.NUMBER:
            raise expr.refusal("a test of a value that is not concrete")
        return False

    def _slice(self, node: syntax.Slice, conjunct: Conjunct, vertex: Vertex) -> Found:
        base = self.operands.evaluate(node.base, conjunct, vertex)
        ends = [
            None if end is None else self.operands.concrete(end, conjunct, vertex, Type.INT)
            for end in (node.low, node.high)
        ]
        if base is None or vertex.faults or vertex.reasons:
            return None
        if base.facts.types is not Type.LIST or not base.lists:
            message = f"a slice of {base.facts.types.words()}"
            return node.fault("wrong_type", message)
        if any(each.literal.is_open for each in base.lists):
            raise node.refusal("a slice of an open list")
        items = base.items()
        low, high = (None if end is None else int(end.text) for end in ends)
        low, high = low or 0, len(items) if high is None else high
        if not 0 <= low <= high <= len(items):
            return node.fault("out_of_range", "the slice is outside of the list")
        return list_of(tuple(known_node(item, node) for item in items[low:high]), node)

    def _call(
        self, node: syntax.Call | syntax.Selector, conjunct: Conjunct, vertex: Vertex
    ) -> Found:
        if isinstance(node, syntax.Selector):
            member = self.operands.of_package(node, conjunct.env)
            arguments: tuple[Node, ...] = ()
        else:
            member, arguments = self.operands.function(node.function, conjunct.env), node.arguments
        if not isinstance(member, Function):
            raise node.refusal("a call of what is not a function")
        if member.name == "len":
            return self._length(node, arguments, conjunct, vertex)
        if member.validates is not None and len(arguments) == len(member.takes) - 1:
            return self._validator(member, node, arguments, conjunct, vertex)
        if len(arguments) != len(member.takes):
            message = f"{member.name}() takes {len(member.takes)} arguments"
            return node.fault("wrong_type", message)
        values = self._arguments(member, member.takes, arguments, conjunct, vertex)
        if values is None:
            return None
        result = self._apply(member, values, node)
        return result if isinstance(result, Fault) else self.arguments.as_node(result, node)

    def _apply(self, member: Function, values: Iterable[Any], node: Node) -> Any:
        self.budget.step()
        try:
            return member.apply(*values)
        except Failed as error:
            message = f"{member.name}: {error}"
            return node.fault("conflict", message)
        except CallRefused as error:
            raise node.refusal(f"{error} in {member.name}") from None

    def _validator(
        self,
        member: Function,
        node: Node,
        arguments: tuple[Node, ...],
        conjunct: Conjunct,
        vertex: Vertex,
    ) -> Validator | None:
        values = self._arguments(member, member.takes[1:], arguments, conjunct, vertex)
        if values is None:
            return None
        assert member.validates is not None
        given = values

        def holds(checked: Vertex) -> Fault | None:
            first = self.arguments.argument(
                member.takes[0], known_node(checked, node), Conjunct(node, None), checked
            )
            if first is None:
                return None
            found = self._apply(member, [first, *given], node)
            if found is True:
                return None
            message = f"does not satisfy {self._constraint(member, arguments, given)}"
            if self.shows_values and member.takes[0] in _SHOWN:
                message = f"invalid value {spell(first)} ({message})"
            return node.fault("out_of_range", message)

        return Validator(holds, member.validates, member.name, node.line, node.column)

    def _constraint(self, member: Function, arguments: tuple[Node, ...], values: list[Any]) -> str:
        """Return a constraint like `strings.MinRunes(8)`; literals are no values of a file."""
        literals = (syntax.Constant, syntax.Number)
        shown = [
            spell(value) if self.shows_values or isinstance(argument, literals) else "…"
            for argument, value in zip(arguments, values, strict=True)
        ]
        return f"{member.name}({', '.join(shown)})" if shown else member.name

    def _arguments(
        self,
        member: Function,
        takes: str,
        given: tuple[Node, ...],
        conjunct: Conjunct,
        vertex: Vertex,
    ) -> list[Any] | None:
        values = [
            self.arguments.argument(letter, argument, conjunct, vertex)
            for letter, argument in zip(takes, given, strict=True)
        ]
        if vertex.faults or any(value is None for value in values):
            return None
        return [value.value if isinstance(value, Null) else value for value in values]

    def _length(
        self, node: Node, arguments: tuple[Node, ...], conjunct: Conjunct, vertex: Vertex
    ) -> Found:
        if len(arguments) != 1:
            return node.fault("wrong_type", "len() takes 1 argument")
        found = self.operands.evaluate(arguments[0], conjunct, vertex)
        if found is None:
            return None
        facts = found.facts
        if isinstance(facts.scalar, Scalar) and facts.scalar.type is Type.STRING:
            count = len(facts.scalar.text.encode())
        elif facts.types is Type.LIST and found.lists:
            count = len(found.items())
        elif facts.types is Type.STRUCT:
            count = sum(1 for key in found.arcs if isinstance(key, Label) and not key.special)
        elif facts.scalar is None and facts.types & _SIZED:
            vertex.reasons.append(reason(node, NOT_CONCRETE))
            return None
        else:
            return node.fault("wrong_type", f"len of {facts.types.words()}")
        return Scalar(Type.INT, Decimal(count), str(count), node.line, node.column)


def _boolean(node: Node, *, holds: bool) -> Scalar:
    return Scalar(Type.BOOL, holds, str(holds).lower(), node.line, node.column)


def constant(member: BuiltinConstant, node: Node) -> Node:
    place = node.place
    if isinstance(member.value, Numeric):
        found = member.value
        return syntax.Number(value=found.value, is_int=found.is_int, text=found.text, **place)
    assert isinstance(member.value, str)
    if member.value.startswith("{"):
        return parse_expression(member.value)
    return syntax.Constant(value=member.value, **place)


def _no_operand(node: syntax.Operation, given: Node, side: Vertex, vertex: Vertex) -> Fault | None:
    if side.facts.types in (Type.LIST, Type.STRUCT):
        if node.operator in ("==", "!=", "+", "*"):
            words = side.facts.types.words()
            raise node.refusal(f"the operator {node.operator} with {words}")
        message = f"{node.operator} with {side.facts.types.words()}"
        return given.fault("wrong_type", message)
    vertex.reasons.append(reason(given, NOT_CONCRETE))
    return None
