"""Fields that evaluation adds: comprehensions in structs and lists, computed labels.

They are added once everything else of a struct is known. A field that was looked for before it
was added, or whose value was needed before it was complete, makes the file one that is refused.
"""

from __future__ import annotations

from decimal import Decimal

from cue import syntax
from cue.cycles import LET
from cue.faults import broken, unsupported
from cue.operations import Operations
from cue.ordering import has_certain_order
from cue.scalars import Type
from cue.syntax import Label, Node
from cue.vertex import Conjunct, Env, Key, Vertex, scope_of


class Dynamic(Operations):
    def take(self, vertex: Vertex, conjunct: Conjunct) -> None:
        raise NotImplementedError

    def take_embedded(self, vertex: Vertex) -> None:
        raise NotImplementedError

    def add_dynamic(self, vertex: Vertex) -> None:
        """Take what comprehensions and computed fields add, in order, as often as one waits."""
        if vertex.dynamic and vertex.disjunctions:
            self._refuse(vertex.dynamic[0].expr, "a comprehension beside a disjunction")
        while vertex.dynamic:
            waiting, vertex.dynamic = vertex.dynamic, []
            known = len(waiting)
            left = [conjunct for conjunct in waiting if not self._added(vertex, conjunct)]
            if vertex.disjunctions:
                self._refuse(waiting[0].expr, "a disjunction that a comprehension adds")
            if len(left) == known and not vertex.dynamic:
                self._give_up(vertex, left)
                return
            vertex.dynamic = [*left, *vertex.dynamic]

    def _added(self, vertex: Vertex, conjunct: Conjunct) -> bool:
        """Whether it is done; not yet while it needs what another one may add."""
        looked_for = set(vertex.absent)
        probe = Vertex(vertex.path, is_operand=vertex.is_operand)
        yields = self._yields(conjunct, probe, vertex)
        if yields is None and not probe.faults:
            vertex.absent = looked_for
            return False
        vertex.faults.extend(probe.faults)
        for each in yields or ():
            self.take(vertex, each)
        self.take_embedded(vertex)
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
            return self._computed_field(node, conjunct, probe)
        assert isinstance(node, syntax.Comprehension)
        return self.expanded(node, conjunct, probe, vertex)

    def _computed_field(
        self, node: syntax.ComputedField, conjunct: Conjunct, probe: Vertex
    ) -> list[Conjunct] | None:
        found = self.concrete(node.label, conjunct, probe, Type.STRING)
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
        return [_added_by(conjunct, made, conjunct.env)]

    def expanded(
        self, node: syntax.Comprehension, conjunct: Conjunct, probe: Vertex, holder: Vertex
    ) -> list[Conjunct] | None:
        """The bodies, each with the names of its turn; None, with the reason, while unknown.

        `holder` is the struct, or the list, that they are added to.
        """
        envs = self._turns(node.clauses, conjunct.env, probe, holder)
        if envs is None:
            return None
        return [_added_by(conjunct, node.body, env) for env in envs]

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
            found = self.concrete(first.condition, guard, probe, Type.BOOL)
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
        self.turns += 1
        label = Label(f"{LET}{clause.line}:{clause.column} {self.turns}", special=True)
        self.budget.value(0)
        return scope_of(clause.scope, names, (*probe.path, label), env)

    def _members(
        self, loop: syntax.Loop, env: Env | None, probe: Vertex, holder: Vertex
    ) -> list[dict[Key, Vertex]] | None:
        """For each turn of a loop the values of its names."""
        found = self.evaluated(loop.source, Conjunct(loop.source, env), probe)
        if found is None:
            return None
        if found.facts.types is Type.LIST and found.lists:
            items = enumerate(found.items())
            return [self._names(loop, _index(at, loop), item) for at, item in items]
        if found.facts.types is not Type.STRUCT:
            fault = f"a loop over {found.facts.types.words()}"
            if found.facts.scalar is None:
                self._refuse(loop.source, fault)
            raise broken(loop.source.line, loop.source.column, fault, "wrong_type")
        if not has_certain_order(found, written=False):
            if holder.lists or not holder.declared:
                self._refuse(loop.source, "a list by a struct whose fields have no certain order")
            holder.is_unordered = True
        return [
            self._names(loop, syntax.Constant(value=key.name, **_place(loop)), member)
            for key, member in found.arcs.items()
            if isinstance(key, Label) and not key.special
        ]

    def _names(self, loop: syntax.Loop, key: Node, value: Vertex) -> dict[Key, Vertex]:
        names: dict[Key, Vertex] = {Label(loop.value): value}
        if loop.key:
            place = Label(f"key {loop.line}:{loop.column}", special=True)
            names[Label(loop.key)] = Vertex((place,), [Conjunct(key, None)])
        return names

    def _refuse(self, node: Node, construct: str) -> None:
        raise unsupported(node.line, node.column, construct)

    turns = 0


def _index(at: int, loop: syntax.Loop) -> Node:
    return syntax.Number(value=Decimal(at), is_int=True, text=str(at), **_place(loop))


def _place(node: Node) -> dict[str, int]:
    return {"line": node.line, "column": node.column}


def _added_by(conjunct: Conjunct, expr: Node, env: Env | None) -> Conjunct:
    return Conjunct(expr, env, conjunct.scope, conjunct.trail, conjunct.is_cyclic, is_added=True)
