"""Unification: from what must hold at each path to the values, lazily and within a budget.

A reference does not copy a value but what must hold there (conjuncts), so that names inside mean
the fields of the struct they end up in. A disjunction is tried one alternative after the other on a
fresh vertex; those that fail are dropped.
"""

from __future__ import annotations

from dataclasses import replace

from kernel.cue import syntax
from kernel.cue.choices import drop_incomplete, expand
from kernel.cue.closing import Closedness
from kernel.cue.cycles import depends_on_itself, is_above, is_under_way, returns
from kernel.cue.faults import Budget, Fault
from kernel.cue.operands import Operands
from kernel.cue.scalars import Limit, Scalar, Type, limit, predeclared
from kernel.cue.syntax import Label, Mark, Node
from kernel.cue.vertex import (
    Closing,
    Conjunct,
    Constraint,
    Declared,
    Env,
    Key,
    Scope,
    State,
    Vertex,
)
from kernel.reading.tree import Attribute


class Evaluator(Operands):
    """Evaluates one file. Methods raise Broken when the budget is used up."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def collect(self, vertex: Vertex) -> None:
        """Bring together what must hold here; members get their conjuncts but no values yet."""
        if vertex.state is not State.NEW:
            return
        vertex.state = State.COLLECTING
        self.budget.value(len(vertex.path))
        self.budget.enter()
        self._take_all(vertex)
        self._finish(vertex)
        vertex.state = State.COLLECTED
        is_waiting = vertex.reasons and vertex.facts.scalar is None
        if vertex.disjunctions and not vertex.faults and not is_waiting:
            expand(self, vertex)
            if vertex.origin is None:
                drop_incomplete(vertex)
        self.budget.leave()

    def complete(self, vertex: Vertex) -> None:
        """The same for every member below; sets `failed`."""
        self.collect(vertex)
        if vertex.state is not State.COLLECTED:
            return
        vertex.state = State.COMPLETING
        goes_no_further = vertex.faults and (vertex.origin is not None or vertex.has_cycle)
        members = [] if vertex.choices or goes_no_further else list(vertex.arcs.values())
        for member in members:
            self.complete(member)
        vertex.failed = bool(vertex.faults) or any(member.failed for member in members)
        vertex.state = State.DONE

    def _take_all(self, vertex: Vertex) -> None:
        for conjunct in vertex.conjuncts:
            self._take(vertex, conjunct)
        while vertex.embedded:
            waiting, vertex.embedded = vertex.embedded, []
            self._constrain(vertex)  # members are whole before an embedding may name them
            for conjunct in waiting:
                self._take(vertex, conjunct)
        while vertex.deferred:
            waiting, vertex.deferred = vertex.deferred, []
            for conjunct in waiting:
                self._take_value(vertex, conjunct)

    def _take(self, vertex: Vertex, conjunct: Conjunct) -> None:
        """One conjunct: split it, follow it, or note what it says."""
        self.budget.step()
        match conjunct.expr:
            case syntax.Unification(parts=parts):
                for part in parts:
                    self._take(vertex, _with(conjunct, part))
            case syntax.Parenthesis(inner=inner):
                self._take(vertex, _with(conjunct, inner))
            case syntax.Disjunction():
                vertex.disjunctions.append(conjunct)
            case syntax.Reference() | syntax.Selector() | syntax.Index():
                self._follow(vertex, conjunct)
            case syntax.Call(function="close", argument=argument):
                self._close(vertex, conjunct, argument)
            case syntax.Bottom(line=line, column=column):
                vertex.faults.append(Fault(line, column, "conflict", "an explicit error, _|_"))
            case _:
                self._take_terminal(vertex, conjunct)

    def _close(self, vertex: Vertex, conjunct: Conjunct, argument: Node) -> None:
        found = self.evaluated(argument, conjunct, vertex)
        if found is None:
            return
        if not found.facts.types & Type.STRUCT:
            message = f"close of {found.facts.types.words()}"
            vertex.faults.append(Fault(argument.line, argument.column, "wrong_type", message))
            return
        scope = Scope(Closing.CLOSE, conjunct.scope, len(vertex.path))
        self._take(vertex, _with(conjunct, argument, scope))

    def _take_terminal(self, vertex: Vertex, conjunct: Conjunct) -> None:
        vertex.is_solid |= not conjunct.is_cyclic
        match conjunct.expr:
            case syntax.Struct() as literal:
                self._take_struct(vertex, conjunct, literal)
                return
            case syntax.ListLiteral() as literal:
                self._take_list(vertex, conjunct, literal)
            case syntax.Number() | syntax.Constant() as node:
                self._note(vertex, vertex.facts.add_scalar(scalar_of(node)))
                vertex.at(node.line, node.column)
            case _:
                vertex.deferred.append(conjunct)
        vertex.terminals.append(conjunct)

    def _note(self, vertex: Vertex, fault: Fault | None) -> None:
        if fault is not None:
            vertex.faults.append(fault)

    def _take_struct(self, vertex: Vertex, conjunct: Conjunct, literal: syntax.Struct) -> None:
        env = Env(vertex, literal, conjunct.env)
        scope = conjunct.scope
        if literal.embeddings and not conjunct.is_spread:
            scope = Scope(Closing.UNIT, scope, len(vertex.path))
        vertex.terminals.append(replace(conjunct, scope=scope, is_spread=True))
        if literal.is_struct:
            narrowed = vertex.facts.narrow(Type.STRUCT, literal.line, literal.column)
            self._note(vertex, narrowed)
            vertex.at(literal.line, literal.column)
        vertex.declared.setdefault(scope, []).append(Declared(literal, env))
        inside = Conjunct(literal, env, scope, conjunct.trail, conjunct.is_cyclic)
        for field in literal.fields:
            self._take_field(vertex, inside, field)
        for pattern in literal.patterns:
            constraint = Constraint(pattern.pattern, _with(inside, pattern.value))
            vertex.constraints.append(constraint)
        for embedding in () if conjunct.is_spread else literal.embeddings:
            within = Scope(Closing.EMBEDDING, scope, len(vertex.path))
            vertex.embedded.append(_with(inside, embedding.value, within))

    def _take_field(self, vertex: Vertex, inside: Conjunct, field: syntax.Field) -> None:
        conjunct = _with(inside, field.value)
        if field.label.is_definition:
            scope = Scope(Closing.OWN, inside.scope, len(vertex.path) + 1)
            conjunct = _with(inside, field.value, self._own_scope(vertex, field.label, scope))
        if field.mark is Mark.REGULAR:
            self._add_to_arc(vertex, field.label, conjunct, field.attributes)
            return
        vertex.constraints.append(Constraint(field.label, conjunct, field.attributes))
        if field.mark is Mark.REQUIRED:
            vertex.required.setdefault(field.label, field)

    def _own_scope(self, vertex: Vertex, label: Label, scope: Scope) -> Scope:
        """All declarations of one definition in one scope are closed together."""
        member = vertex.arcs.get(label)
        for earlier in member.conjuncts if member else ():
            if earlier.scope is not None and _around(earlier.scope) is _around(scope):
                return earlier.scope
        return scope

    def _add_to_arc(
        self, vertex: Vertex, key: Key, conjunct: Conjunct, attributes: tuple[Attribute, ...] = ()
    ) -> None:
        member = vertex.arcs.get(key)
        if member is None:
            member = Vertex((*vertex.path, key), is_operand=vertex.is_operand)
            vertex.arcs[key] = member
        member.conjuncts.append(conjunct)
        member.attributes += tuple(new for new in attributes if new not in member.attributes)

    def _take_list(self, vertex: Vertex, conjunct: Conjunct, literal: syntax.ListLiteral) -> None:
        self._note(vertex, vertex.facts.narrow(Type.LIST, literal.line, literal.column))
        vertex.at(literal.line, literal.column)
        vertex.lists.append((literal, conjunct))
        for index, item in enumerate(literal.items):
            self.budget.step()
            self._add_to_arc(vertex, index, _with(conjunct, item))

    def _follow(self, vertex: Vertex, conjunct: Conjunct) -> None:
        """A reference: take over what must hold at its target."""
        if self._take_predeclared(vertex, conjunct):
            return
        if self._is_inside_itself(vertex, conjunct):
            raise depends_on_itself(conjunct.expr)
        target = self.target(conjunct.expr, conjunct.env, vertex)
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
            scope = Scope(Closing.DEFINITION, scope, len(vertex.path))
        cyclic = conjunct.is_cyclic or bool(earlier) or is_above(target, vertex)
        self._copy(vertex, target, Conjunct(conjunct.expr, None, scope, conjunct.trail, cyclic))

    def _is_inside_itself(self, vertex: Vertex, conjunct: Conjunct) -> bool:
        """Whether a value is said to be a member of itself that nothing else gives it."""
        expr = conjunct.expr
        if not conjunct.trail or not isinstance(expr, syntax.Selector | syntax.Index):
            return False
        probe = Vertex(vertex.path)
        base = self.target(expr.base, conjunct.env, probe)
        if base is None or all(passed.path != base.path for passed, _ in conjunct.trail):
            return False
        return self.target(expr, conjunct.env, probe) is None

    def _copy(self, vertex: Vertex, target: Vertex, by: Conjunct) -> None:
        vertex.has_cycle |= by.is_cyclic
        trail = (*by.trail, (target, vertex.path))
        for taken in list(target.conjuncts):
            cyclic = by.is_cyclic or taken.is_cyclic
            self._take(vertex, Conjunct(taken.expr, taken.env, by.scope, trail, cyclic))

    def _take_predeclared(self, vertex: Vertex, conjunct: Conjunct) -> bool:
        expr = conjunct.expr
        if not isinstance(expr, syntax.Reference) or self.declaring(expr.name, conjunct.env):
            return False
        found = predeclared(expr.name, expr.line, expr.column)
        if found is None:
            return False
        types, limits = found
        vertex.has_top |= types is Type.TOP
        vertex.terminals.append(conjunct)
        vertex.is_solid |= not conjunct.is_cyclic
        self._note(vertex, vertex.facts.narrow(types, expr.line, expr.column))
        vertex.facts.limits.extend(limits)
        vertex.at(expr.line, expr.column)
        return True

    def _take_value(self, vertex: Vertex, conjunct: Conjunct) -> None:
        """What needs other values: bounds, signs, interpolation, `len`."""
        self.budget.step()
        node = conjunct.expr
        found: Scalar | Limit | Fault | None
        if isinstance(node, syntax.Bound):
            operand = self.concrete(node.operand, conjunct, vertex)
            if operand is None:
                return
            found = limit(node.operator, operand, node.line, node.column)
        else:
            found = self.computed(node, conjunct, vertex)
        if isinstance(found, Limit):
            self._note(vertex, vertex.facts.add_limit(found))
        elif isinstance(found, Scalar):
            self._note(vertex, vertex.facts.add_scalar(found))
            vertex.at(node.line, node.column)
        else:
            self._note(vertex, found)

    def _finish(self, vertex: Vertex) -> None:
        if vertex.has_cycle and not vertex.is_solid and not vertex.disjunctions:
            expr = vertex.conjuncts[0].expr
            vertex.faults.append(
                Fault(expr.line, expr.column, "conflict", "the value contains itself without end")
            )
            vertex.arcs.clear()
        if vertex.lists:
            self._finish_list(vertex)
        if vertex.constraints:
            self._constrain(vertex)
        self._check_closed(vertex)
        if not vertex.disjunctions and not vertex.faults:
            if _is_plain_struct(vertex):
                vertex.facts.types = Type.STRUCT
            self._note(vertex, vertex.facts.settle())

    def _finish_list(self, vertex: Vertex) -> None:
        """Bring lists to one length, item by item."""
        first, _ = vertex.lists[0]
        longest = max(vertex.lists, key=lambda entry: len(entry[0].items))[0]
        for literal, conjunct in vertex.lists:
            missing = range(len(literal.items), len(longest.items))
            if missing and not literal.is_open:
                other = longest if longest is not literal else first
                message = (
                    f"a list of {len(literal.items)} items conflicts with one of"
                    f" {len(longest.items)} (at {other.line}:{other.column})"
                )
                vertex.faults.append(Fault(literal.line, literal.column, "conflict", message))
                return
            for index in missing if literal.rest is not None else ():
                self.budget.step()
                assert literal.rest is not None
                self._add_to_arc(vertex, index, _with(conjunct, literal.rest))

    def _constrain(self, vertex: Vertex) -> None:
        for key, member in vertex.arcs.items():
            for constraint in vertex.constraints:
                if (constraint, key) in vertex.constrained:
                    continue
                self.budget.step()
                vertex.constrained.add((constraint, key))
                if self._covers(constraint, key, vertex):
                    member.conjuncts.append(constraint.conjunct)
                    member.attributes += constraint.attributes

    def _covers(self, constraint: Constraint, key: Key, vertex: Vertex) -> bool:
        if isinstance(constraint.label, Label) or not isinstance(key, Label):
            return constraint.label == key
        return not key.special and self.pattern_holds(
            constraint.label, constraint.conjunct, key.name, vertex
        )

    def _check_closed(self, vertex: Vertex) -> None:
        closedness = Closedness(vertex, self.has_pattern)
        for key, member in vertex.arcs.items():
            if isinstance(key, Label) and closedness.forbids(key):
                expr = member.conjuncts[0].expr
                for conjunct in member.conjuncts:
                    if conjunct.scope is None:
                        expr = conjunct.expr
                message = f"the field {key.name} is not allowed here"
                vertex.faults.append(Fault(expr.line, expr.column, "unknown_field", message))


def _with(conjunct: Conjunct, expr: Node, scope: Scope | None = None) -> Conjunct:
    return Conjunct(expr, conjunct.env, scope or conjunct.scope, conjunct.trail, conjunct.is_cyclic)


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


def _around(scope: Scope) -> Scope | None:
    """The scope that a declaration's own lies in; a struct with embeddings makes no difference."""
    around = scope.parent
    while around is not None and around.kind is Closing.UNIT:
        around = around.parent
    return around


def _is_plain_struct(vertex: Vertex) -> bool:
    """Whether literals with nothing but embeddings are left to be a struct."""
    if vertex.facts.scalar is not None or not vertex.declared:
        return False
    return bool(vertex.facts.types & Type.STRUCT) and not vertex.has_top and not vertex.reasons
