"""Fields that evaluation adds: comprehensions in structs and lists, computed labels.

They are added once everything else of a struct is known. The file is refused when a field was
looked up before it was added, or its value needed before it was complete.
"""

from __future__ import annotations

from decimal import Decimal

from cue.evaluation.cycles import LET
from cue.evaluation.operands import Operands
from cue.evaluation.vertex import Conjunct, Env, Key, Vertex, has_certain_order, scope_of
from cue.faults import broken_at
from cue.language import syntax
from cue.language.syntax import Label, Node
from cue.scalars import Type


class Dynamic:
    """The fields of comprehensions and of computed labels."""

    def __init__(self, operands: Operands) -> None:
        self.operands = operands
        self.unifier = operands.unifier
        self.budget = operands.budget
        self._turn = 0  # numbers the turns of loops, whose names differ

    def add_dynamic(self, vertex: Vertex) -> None:
        """Add the fields of comprehensions and computed labels, until none of them waits."""
        if vertex.dynamic and vertex.disjunctions:
            raise vertex.dynamic[0].expr.refusal("a comprehension beside a disjunction")
        while vertex.dynamic:
            waiting, vertex.dynamic = vertex.dynamic, []
            known = len(waiting)
            left = [conjunct for conjunct in waiting if not self._try_add(vertex, conjunct)]
            if vertex.disjunctions:
                raise waiting[0].expr.refusal("a disjunction that a comprehension adds")
            if len(left) == known and not vertex.dynamic:
                self._give_up(vertex, left)
                return
            vertex.dynamic = [*left, *vertex.dynamic]

    def _try_add(self, vertex: Vertex, conjunct: Conjunct) -> bool:
        """Add the fields of one; return False while it needs what another one may add."""
        looked_for = set(vertex.absent)
        probe = Vertex(vertex.path, is_operand=vertex.is_operand)
        yields = self._yields(conjunct, probe, vertex)
        if yields is None and not probe.faults:
            vertex.absent = looked_for
            return False
        vertex.faults.extend(probe.faults)
        for each in yields or ():
            self.unifier.take(vertex, each)
        self.unifier.take_embedded(vertex)
        return True

    def _give_up(self, vertex: Vertex, left: list[Conjunct]) -> None:
        for conjunct in left:
            probe = Vertex(vertex.path, is_operand=vertex.is_operand)
            self._yields(conjunct, probe, vertex)
            vertex.reasons.extend(probe.reasons)
            vertex.faults.extend(probe.faults)

    def _yields(self, conjunct: Conjunct, probe: Vertex, vertex: Vertex) -> list[Conjunct] | None:
        node = conjunct.expr
        if isinstance(node, syntax.ComputedField):
            return self._compute_field(node, conjunct, probe)
        assert isinstance(node, syntax.Comprehension)
        return self.expand(node, conjunct, probe, vertex)

    def _compute_field(
        self, node: syntax.ComputedField, conjunct: Conjunct, probe: Vertex
    ) -> list[Conjunct] | None:
        found = self.operands.concrete(node.label, conjunct, probe, Type.STRING)
        if found is None:
            return None
        named = syntax.Field(
            label=Label(found.text),
            mark=node.mark,
            value=node.value,
            is_identifier=False,
            attributes=node.attributes,
            line=node.line,
            column=node.column,
        )
        made = syntax.Struct(fields=(named,), line=node.line, column=node.column)
        return [_added_conjunct(conjunct, made, conjunct.env)]

    def expand(
        self, node: syntax.Comprehension, conjunct: Conjunct, probe: Vertex, holder: Vertex
    ) -> list[Conjunct] | None:
        """Return a body for each turn with its names; None, with the reason, while unknown.

        `holder`: the struct or list that they are added to.
        """
        envs = self._turns(node.clauses, conjunct.env, probe, holder)
        if envs is None:
            return None
        return [_added_conjunct(conjunct, node.body, env) for env in envs]

    def _turns(
        self,
        clauses: tuple[syntax.Guard | syntax.Loop | syntax.LetClause, ...],
        env: Env | None,
        probe: Vertex,
        holder: Vertex,
    ) -> list[Env | None] | None:
        scopes: list[Env | None] | None
        self.budget.step()
        if not clauses:
            return [env]
        first, rest = clauses[0], clauses[1:]
        if isinstance(first, syntax.Guard):
            guard = Conjunct(first.condition, env)
            found = self.operands.concrete(first.condition, guard, probe, Type.BOOL)
            scopes = None if found is None else [env] if found.content else []
        elif isinstance(first, syntax.LetClause):
            scopes = [self._scope(first, {}, probe, env)]
        else:
            members = self._members(first, env, probe, holder)
            known = members or ()
            scopes = [self._scope(first, names, probe, env) for names in known]
            scopes = None if members is None else scopes
        made: list[Env | None] = []
        for scope in scopes or ():
            inner = self._turns(rest, scope, probe, holder)
            if inner is None:
                return None
            made += inner
        return None if scopes is None else made

    def _scope(
        self,
        clause: syntax.Loop | syntax.LetClause,
        names: dict[Key, Vertex],
        probe: Vertex,
        env: Env | None,
    ) -> Env:
        self._turn += 1
        label = Label(f"{LET}{clause.line}:{clause.column} {self._turn}", special=True)
        self.budget.value(0)
        return scope_of(clause.scope, names, (*probe.path, label), env)

    def _members(
        self, loop: syntax.Loop, env: Env | None, probe: Vertex, holder: Vertex
    ) -> list[dict[Key, Vertex]] | None:
        """Return the values of the loop's names for each turn."""
        found = self.operands.evaluate(loop.source, Conjunct(loop.source, env), probe)
        if found is None:
            return None
        if found.facts.types is Type.LIST and found.lists:
            keys = (
                syntax.Number(value=Decimal(at), is_int=True, text=str(at), **loop.place)
                for at in range(len(found.items()))
            )
            return [
                self._names(loop, key, item) for key, item in zip(keys, found.items(), strict=True)
            ]
        if found.facts.types is not Type.STRUCT:
            fault = f"a loop over {found.facts.types.words()}"
            if found.facts.scalar is None:
                raise loop.source.refusal(fault)
            raise broken_at(loop.source.line, loop.source.column, fault, "wrong_type")
        if not has_certain_order(found, written=False):
            if holder.lists or not holder.declared:
                raise loop.source.refusal("a list by a struct whose fields have no certain order")
            holder.is_unordered = True
        return [
            self._names(loop, syntax.Constant(value=key.name, **loop.place), member)
            for key, member in found.arcs.items()
            if isinstance(key, Label) and not key.special
        ]

    def _names(self, loop: syntax.Loop, key: Node, value: Vertex) -> dict[Key, Vertex]:
        names: dict[Key, Vertex] = {Label(loop.value): value}
        if loop.key:
            place = Label(f"key {loop.line}:{loop.column}", special=True)
            names[Label(loop.key)] = Vertex((place,), [Conjunct(key, None)])
        return names


def _added_conjunct(conjunct: Conjunct, expr: Node, env: Env | None) -> Conjunct:
    return Conjunct(expr, env, conjunct.scope, conjunct.trail, conjunct.is_cyclic, is_added=True)
