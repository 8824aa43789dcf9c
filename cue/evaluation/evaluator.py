"""Unification: from what must hold at each path to the values, lazily and within a budget.

A reference does not copy a value but what must hold there (conjuncts), so that names inside mean
the fields of the struct they end up in. A disjunction is tried one alternative after the other on a
fresh vertex; those that fail are dropped.
"""

from __future__ import annotations

from dataclasses import replace

from cue.builtins import BuiltinConstant
from cue.evaluation.cycles import WITHOUT_END, depends_on_itself, is_above, is_under_way, returns
from cue.evaluation.disjunctions import drop_incomplete, expand
from cue.evaluation.dynamic import Dynamic
from cue.evaluation.members import Members, with_expr
from cue.evaluation.operands import Operands
from cue.evaluation.operations import Operations, constant
from cue.evaluation.vertex import (
    Closing,
    Conjunct,
    DeclarationScope,
    Validator,
    Vertex,
    VertexState,
)
from cue.faults import Budget, Fault
from cue.language import syntax
from cue.language.syntax import Node
from cue.scalars import Scalar, Type, limit, predeclared_type


class Evaluator:
    """Evaluates one file. Methods raise Broken when the budget is used up.

    `shows_values`: messages may name values, since they are those of the file's own author.
    """

    def __init__(self, budget: Budget, *, shows_values: bool = False) -> None:
        self.budget = budget
        self.operands = Operands(self)
        self.operations = Operations(self.operands, shows_values=shows_values)
        self.dynamic = Dynamic(self.operands)
        self.members = Members(self.operands, self.dynamic)

    def collect(self, vertex: Vertex) -> None:
        """Bring together what must hold here; members get their conjuncts but no values yet."""
        if vertex.state is not VertexState.NEW:
            return
        vertex.state = VertexState.COLLECTING
        self.budget.value(len(vertex.path))
        self.budget.enter()
        self._take_all(vertex)
        self._finish(vertex)
        vertex.state = VertexState.COLLECTED
        if vertex.validators and vertex.facts.scalar is not None and not vertex.disjunctions:
            self._validate(vertex)
        is_waiting = vertex.reasons and vertex.facts.scalar is None
        if vertex.disjunctions and not vertex.faults and not is_waiting:
            expand(self, vertex)
            if vertex.origin is None:
                drop_incomplete(vertex)
        self.budget.leave()

    def complete(self, vertex: Vertex) -> None:
        """The same for every member below; sets `failed`."""
        self.collect(vertex)
        if vertex.state is not VertexState.COLLECTED:
            return
        vertex.state = VertexState.COMPLETING
        goes_no_further = vertex.faults and (vertex.origin is not None or vertex.has_cycle)
        members = [] if vertex.choices or goes_no_further else list(vertex.arcs.values())
        for member in members:
            self.complete(member)
        if vertex.validators and not vertex.choices and not vertex.faults:
            vertex.state = VertexState.DONE
            self._validate(vertex)
        vertex.failed = bool(vertex.faults) or any(member.failed for member in members)
        vertex.state = VertexState.DONE

    def _take_all(self, vertex: Vertex) -> None:
        for conjunct in vertex.conjuncts:
            self.take(vertex, conjunct)
        self.take_embedded(vertex)
        if vertex.dynamic:
            self.members.constrain(vertex)
            self.dynamic.add_dynamic(vertex)
        while vertex.deferred:
            waiting, vertex.deferred = vertex.deferred, []
            for conjunct in waiting:
                self._take_value(vertex, conjunct)

    def take_embedded(self, vertex: Vertex) -> None:
        while vertex.embedded:
            waiting, vertex.embedded = vertex.embedded, []
            self.members.constrain(vertex)  # members are whole before an embedding may name them
            for conjunct in waiting:
                self.take(vertex, conjunct)

    def take(self, vertex: Vertex, conjunct: Conjunct) -> None:
        """One conjunct: split it, follow it, or note what it says."""
        self.budget.step()
        match conjunct.expr:
            case syntax.Unification(parts=parts):
                for part in parts:
                    self.take(vertex, with_expr(conjunct, part))
            case syntax.Parenthesis(inner=inner):
                self.take(vertex, with_expr(conjunct, inner))
            case syntax.Disjunction():
                vertex.disjunctions.append(conjunct)
            case syntax.Reference() | syntax.Selector() | syntax.Index() | syntax.Known():
                self._follow(vertex, conjunct)
            case syntax.Aliased(alias=alias, value=value):
                env = self.members.named_scope(alias, vertex, vertex, conjunct.env)
                self.take(vertex, replace(with_expr(conjunct, value), env=env))
            case syntax.Call(function=syntax.Reference(name="close" | "and" | "or" as name)):
                self._take_call(vertex, conjunct, name)
            case _:
                self._take_terminal(vertex, conjunct)

    def _take_call(self, vertex: Vertex, conjunct: Conjunct, name: str) -> None:
        node = conjunct.expr
        assert isinstance(node, syntax.Call)
        if len(node.arguments) != 1:
            message = f"{name}() takes 1 argument"
            vertex.note(node.fault("wrong_type", message))
        elif name == "close":
            self._close(vertex, conjunct, node.arguments[0])
        else:
            self._take_items(vertex, conjunct, node, name)

    def _take_items(self, vertex: Vertex, conjunct: Conjunct, node: syntax.Call, name: str) -> None:
        """`and(list)` or `or(list)`: all its items, or one of them."""
        found = self.operands.evaluate(node.arguments[0], conjunct, vertex)
        if found is None:
            return
        place = node.place
        known = [syntax.Known(vertex=item, **place) for item in found.items()]
        if not found.lists or any(each.literal.is_open for each in found.lists):
            raise node.refusal(f"{name}() of an open list")
        if name == "or" and not known:
            fault = node.fault("conflict", "or() of an empty list")
            vertex.note(fault)
        elif len(known) == 1 or name == "and":
            for item in known:
                self.take(vertex, with_expr(conjunct, item))
        else:
            choice = syntax.Disjunction(
                alternatives=tuple((False, item) for item in known), **place
            )
            self.take(vertex, with_expr(conjunct, choice))

    def _close(self, vertex: Vertex, conjunct: Conjunct, argument: Node) -> None:
        found = self.operands.evaluate(argument, conjunct, vertex)
        if found is None:
            return
        if not found.facts.types & Type.STRUCT:
            message = f"close of {found.facts.types.words()}"
            vertex.faults.append(argument.fault("wrong_type", message))
            return
        scope = DeclarationScope(Closing.CLOSE, conjunct.scope, len(vertex.path))
        self.take(vertex, with_expr(conjunct, argument, scope))

    def _take_terminal(self, vertex: Vertex, conjunct: Conjunct) -> None:
        vertex.is_solid |= not conjunct.is_cyclic
        match conjunct.expr:
            case syntax.Struct() as literal:
                self.members.take_struct(vertex, conjunct, literal)
                return
            case syntax.Bottom(line=line, column=column):
                vertex.note(Fault(line, column, "conflict", "an explicit error, _|_"))
                return
            case syntax.ListLiteral() as literal:
                self.members.take_list(vertex, conjunct, literal)
            case syntax.Number() | syntax.Constant() as node:
                vertex.note(vertex.facts.add_scalar(scalar_of(node)))
                vertex.at(node.line, node.column)
            case _:
                vertex.deferred.append(conjunct)
        vertex.terminals.append(conjunct)

    def _follow(self, vertex: Vertex, conjunct: Conjunct) -> None:
        """A reference: take over what must hold at its target."""
        found = self.operands.of_package(conjunct.expr, conjunct.env)
        if isinstance(found, BuiltinConstant):
            node = constant(found, conjunct.expr)
            self.take(vertex, Conjunct(node, None, conjunct.scope, conjunct.trail))
            return
        if found is not None:
            self._take_terminal(vertex, conjunct)
            return
        if self._take_predeclared(vertex, conjunct):
            return
        if self._is_inside_itself(vertex, conjunct):
            raise depends_on_itself(conjunct.expr)
        target = self.operands.target(conjunct.expr, conjunct.env, vertex)
        if target is None or target in (vertex, vertex.origin):
            return
        if is_under_way(target, conjunct, vertex):
            raise depends_on_itself(conjunct.expr)
        self._take_over(vertex, target, conjunct)

    def _take_over(self, vertex: Vertex, target: Vertex, conjunct: Conjunct) -> None:
        earlier = [path for passed, path in conjunct.trail if passed.path == target.path]
        scope = conjunct.scope
        if returns(target, conjunct, earlier):
            raise depends_on_itself(conjunct.expr)
        closes = _names_definition(conjunct.expr)
        key = (target, scope, closes)
        if key in vertex.copied or vertex.path in earlier:
            vertex.has_cycle |= bool(earlier)
            return
        vertex.copied.add(key)
        if closes:
            scope = DeclarationScope(Closing.DEFINITION, scope, len(vertex.path))
        cyclic = conjunct.is_cyclic or bool(earlier) or is_above(target, vertex)
        self._copy(vertex, target, Conjunct(conjunct.expr, None, scope, conjunct.trail, cyclic))

    def _is_inside_itself(self, vertex: Vertex, conjunct: Conjunct) -> bool:
        """Whether a value is said to be a member of itself that nothing else gives it."""
        expr = conjunct.expr
        if not isinstance(expr, syntax.Selector | syntax.Index):
            return False
        probe = Vertex(vertex.path)
        base = self.operands.target(expr.base, conjunct.env, probe)
        itself = [passed.path for passed, _ in conjunct.trail]
        if vertex.origin is None:  # of an alternative, nothing is known of what is around it
            itself.append(vertex.path)
        if base is None or base.path not in itself:
            return False
        return self.operands.target(expr, conjunct.env, probe) is None

    def _copy(self, vertex: Vertex, target: Vertex, by: Conjunct) -> None:
        vertex.has_cycle |= by.is_cyclic
        trail = (*by.trail, (target, vertex.path))
        for taken in list(target.conjuncts):
            cyclic = by.is_cyclic or taken.is_cyclic
            self.take(vertex, Conjunct(taken.expr, taken.env, by.scope, trail, cyclic))

    def _take_predeclared(self, vertex: Vertex, conjunct: Conjunct) -> bool:
        expr = conjunct.expr
        if not isinstance(expr, syntax.Reference) or self.operands.declaring(
            expr.name, conjunct.env
        ):
            return False
        found = predeclared_type(expr.name, expr.line, expr.column)
        if found is None:
            return False
        types, limits = found
        vertex.has_top |= types is Type.TOP
        vertex.terminals.append(conjunct)
        vertex.is_solid |= not conjunct.is_cyclic
        vertex.note(vertex.facts.narrow(types, expr.line, expr.column))
        vertex.facts.limits.extend(limits)
        vertex.at(expr.line, expr.column)
        return True

    def _take_value(self, vertex: Vertex, conjunct: Conjunct) -> None:
        """What needs other values: bounds, signs, interpolation, `len`."""
        self.budget.step()
        node = conjunct.expr
        if isinstance(node, syntax.Bound):
            operand = self.operands.concrete(node.operand, conjunct, vertex)
            if operand is None:
                return
            bound = limit(node.operator, operand, node.line, node.column)
            fault = bound if isinstance(bound, Fault) else vertex.facts.add_limit(bound)
            vertex.note(fault)
            return
        found = self.operations.compute(node, conjunct, vertex)
        if isinstance(found, Scalar):
            vertex.note(vertex.facts.add_scalar(found))
            vertex.at(node.line, node.column)
        elif isinstance(found, Validator):
            narrowed = vertex.facts.narrow(found.types, found.line, found.column)
            vertex.note(narrowed)
            vertex.validators.append(found)
            vertex.at(node.line, node.column)
        elif isinstance(found, Node):
            self._take_result(vertex, conjunct, found)
        else:
            vertex.note(found)

    def _take_result(self, vertex: Vertex, conjunct: Conjunct, result: Node) -> None:
        """What a function gives back beside what else must hold here."""
        if isinstance(result, syntax.Struct) and vertex.arcs:
            construct = "the struct of a function beside other fields"
            raise result.refusal(construct)
        self.take(vertex, Conjunct(result, None, conjunct.scope, conjunct.trail))
        vertex.terminals.pop()  # computed anew where the vertex is one of several possibilities
        self.take_embedded(vertex)

    def _finish(self, vertex: Vertex) -> None:
        if vertex.has_cycle and not vertex.is_solid and not vertex.disjunctions:
            expr = vertex.conjuncts[0].expr
            vertex.faults.append(expr.fault("conflict", WITHOUT_END))
            vertex.arcs.clear()
        if vertex.lists:
            self.members.finish_list(vertex)
        if vertex.constraints:
            self.members.constrain(vertex)
        self.members.check_closed(vertex)
        if not vertex.disjunctions and not vertex.faults:
            # literals with nothing but embeddings are left to be a struct
            may_be_struct = vertex.declared and vertex.facts.types & Type.STRUCT
            if may_be_struct and not (vertex.facts.scalar or vertex.has_top or vertex.reasons):
                vertex.facts.types = Type.STRUCT
            vertex.note(vertex.facts.settle())

    def _validate(self, vertex: Vertex) -> None:
        validators, vertex.validators = vertex.validators, []
        known = len(vertex.reasons)
        for validator in validators:
            if not vertex.faults:
                vertex.note(validator.holds(vertex))
        vertex.is_undecided = len(vertex.reasons) > known


def scalar_of(node: syntax.Number | syntax.Constant) -> Scalar:
    place = node.line, node.column
    if isinstance(node, syntax.Number):
        return Scalar(Type.INT if node.is_int else Type.FLOAT, node.value, node.text, *place)
    if isinstance(node.value, str):
        return Scalar(Type.STRING, node.value, node.value, *place)
    if node.value is None:
        return Scalar(Type.NULL, None, "null", *place)
    return Scalar(Type.BOOL, node.value, str(node.value).lower(), *place)


def _names_definition(expr: Node) -> bool:
    match expr:
        case syntax.Reference(name=name):
            return name.startswith(("#", "_#"))
        case syntax.Selector(base=base, label=label):
            return label.is_definition or _names_definition(base)
        case syntax.Index(base=base):
            return _names_definition(base)
        case _:
            return False
