"""Fields of structs and items of lists: what must hold for each, and which are allowed."""

from __future__ import annotations

from dataclasses import replace

from cue.evaluation.closedness import Closedness
from cue.evaluation.cycles import depends_on_itself, leads_above
from cue.evaluation.dynamic import Dynamic
from cue.evaluation.operands import Operands
from cue.evaluation.vertex import (
    Closing,
    Conjunct,
    DeclarationScope,
    Declared,
    Env,
    FieldConstraint,
    Key,
    Listed,
    Vertex,
    VertexState,
    maker,
    scope_of,
)
from cue.language import syntax
from cue.language.syntax import Label, Mark, Node
from cue.scalars import Type
from readers.tree import Attribute


class Members:
    """The members of structs and lists, the patterns that constrain them, and closedness."""

    def __init__(self, operands: Operands, dynamic: Dynamic) -> None:
        self.operands = operands
        self.unifier = operands.unifier
        self.budget = operands.budget
        self.dynamic = dynamic

    def take_struct(self, vertex: Vertex, conjunct: Conjunct, literal: syntax.Struct) -> None:
        env = Env(vertex, literal, conjunct.env)
        scope = conjunct.scope
        if literal.embeddings and not conjunct.is_spread:
            scope = DeclarationScope(Closing.UNIT, scope, len(vertex.path))
        vertex.terminals.append(replace(conjunct, scope=scope, is_spread=True))
        if literal.is_struct:
            narrowed = vertex.facts.narrow(Type.STRUCT, literal.line, literal.column)
            vertex.note(narrowed)
            vertex.at(literal.line, literal.column)
        vertex.declared.setdefault(scope, []).append(Declared(literal, env))
        is_referred = bool(conjunct.trail) or (
            conjunct.scope is not None and conjunct.scope.kind is Closing.EMBEDDING
        )
        made = maker(literal, is_referred=is_referred, is_added=conjunct.is_added)
        vertex.makers.append(made)
        inside = Conjunct(literal, env, scope, conjunct.trail, conjunct.is_cyclic)
        for field in literal.fields:
            self._take_field(vertex, inside, field)
        for pattern in literal.patterns:
            constraint = FieldConstraint(
                pattern.pattern, with_expr(inside, pattern.value), alias=pattern.alias
            )
            vertex.constraints.append(constraint)
        vertex.dynamic.extend(with_expr(inside, each) for each in literal.dynamic)
        for embedding in () if conjunct.is_spread else literal.embeddings:
            within = DeclarationScope(Closing.EMBEDDING, scope, len(vertex.path))
            vertex.embedded.append(with_expr(inside, embedding.value, within))

    def _take_field(self, vertex: Vertex, inside: Conjunct, field: syntax.Field) -> None:
        conjunct = with_expr(inside, field.value)
        if field.label.is_definition:
            scope = DeclarationScope(Closing.OWN, inside.scope, len(vertex.path) + 1)
            conjunct = with_expr(inside, field.value, self._own_scope(vertex, field.label, scope))
        if field.mark is Mark.REGULAR:
            self._add_to_arc(vertex, field.label, conjunct, field.attributes)
            return
        if inside.trail and leads_above(field.value, inside.env, vertex):
            raise depends_on_itself(field.value)
        vertex.constraints.append(FieldConstraint(field.label, conjunct, field.attributes))
        if field.mark is Mark.REQUIRED:
            vertex.required.setdefault(field.label, field)

    def _own_scope(self, vertex: Vertex, label: Label, scope: DeclarationScope) -> DeclarationScope:
        """All declarations of one definition in one scope are closed together."""
        member = vertex.arcs.get(label)
        for earlier in member.conjuncts if member else ():
            if earlier.scope is not None and _around(earlier.scope) is _around(scope):
                if member is not None:
                    member.is_mixed |= earlier.scope.parent is not scope.parent
                return earlier.scope
        return scope

    def _add_to_arc(
        self, vertex: Vertex, key: Key, conjunct: Conjunct, attributes: tuple[Attribute, ...] = ()
    ) -> None:
        member = vertex.arcs.get(key)
        if member is None:
            if key in vertex.absent:
                raise depends_on_itself(conjunct.expr)
            member = Vertex((*vertex.path, key), is_operand=vertex.is_operand)
            vertex.arcs[key] = member
        self._add(member, conjunct)
        member.attributes += tuple(new for new in attributes if new not in member.attributes)

    def _add(self, member: Vertex, conjunct: Conjunct) -> None:
        if member.state is not VertexState.NEW:
            raise depends_on_itself(conjunct.expr)  # its value was needed before it was complete
        member.conjuncts.append(conjunct)

    def take_list(self, vertex: Vertex, conjunct: Conjunct, literal: syntax.ListLiteral) -> None:
        vertex.note(vertex.facts.narrow(Type.LIST, literal.line, literal.column))
        vertex.at(literal.line, literal.column)
        items = self._list_items(vertex, conjunct, literal)
        vertex.lists.append(Listed(literal, conjunct, len(items)))
        for index, item in enumerate(items):
            self.budget.step()
            self._add_to_arc(vertex, index, item)

    def _list_items(
        self, vertex: Vertex, conjunct: Conjunct, literal: syntax.ListLiteral
    ) -> list[Conjunct]:
        items: list[Conjunct] = []
        for item in literal.items:
            if isinstance(item, syntax.Comprehension):
                items += self.dynamic.expand(item, conjunct, vertex, vertex) or ()
            else:
                items.append(with_expr(conjunct, item))
        return items

    def finish_list(self, vertex: Vertex) -> None:
        """Bring lists to one length, item by item."""
        first = vertex.lists[0]
        longest = max(vertex.lists, key=lambda each: each.length)
        for each in vertex.lists:
            literal = each.literal
            missing = range(each.length, longest.length)
            if missing and not literal.is_open:
                other = longest if longest is not each else first
                message = (
                    f"a list of {each.length} items conflicts with one of {longest.length}"
                    f" (at {other.literal.line}:{other.literal.column})"
                )
                vertex.faults.append(literal.fault("conflict", message))
                return
            for index in missing if literal.rest is not None else ():
                self.budget.step()
                assert literal.rest is not None
                self._add_to_arc(vertex, index, with_expr(each.conjunct, literal.rest))

    def constrain(self, vertex: Vertex) -> None:
        for key, member in vertex.arcs.items():
            for constraint in vertex.constraints:
                if (constraint, key) in vertex.constrained:
                    continue
                self.budget.step()
                vertex.constrained.add((constraint, key))
                if self._covers(constraint, key, vertex):
                    self._add(member, self._for_label(constraint, key, vertex))
                    member.attributes += constraint.attributes

    def _covers(self, constraint: FieldConstraint, key: Key, vertex: Vertex) -> bool:
        if isinstance(constraint.label, Label) or not isinstance(key, Label):
            return constraint.label == key
        return not key.special and self.operands.pattern_holds(
            constraint.label, constraint.conjunct, key.name, vertex
        )

    def _for_label(self, constraint: FieldConstraint, key: Key, vertex: Vertex) -> Conjunct:
        conjunct = constraint.conjunct
        if constraint.alias is None or not isinstance(key, Label):
            return conjunct
        text = syntax.Constant(value=key.name, line=conjunct.expr.line, column=conjunct.expr.column)
        label = Label(f"label {key.name}", special=True)
        name = Vertex((*vertex.path, label), [Conjunct(text, None)])
        env = self.named_scope(constraint.alias, name, vertex, conjunct.env)
        return replace(conjunct, env=env)

    def named_scope(
        self, alias: syntax.Alias, named: Vertex, vertex: Vertex, env: Env | None
    ) -> Env:
        label = Label(f"alias {alias.line}:{alias.column}", special=True)
        return scope_of(alias.scope, {Label(alias.name): named}, (*vertex.path, label), env)

    def check_closed(self, vertex: Vertex) -> None:
        closedness = Closedness(vertex, self.operands.has_pattern)
        for key, member in vertex.arcs.items():
            if isinstance(key, Label) and closedness.forbids(key):
                expr = member.conjuncts[0].expr
                for conjunct in member.conjuncts:
                    if conjunct.scope is None:
                        expr = conjunct.expr
                message = f"the field {key.name} is not allowed here"
                vertex.faults.append(expr.fault("unknown_field", message))
            if closedness.is_uncertain or (vertex.is_mixed and not closedness.is_in_all(key)):
                expr = member.conjuncts[0].expr
                construct = "a definition that its own embedding closes"
                raise expr.refusal(construct)


def with_expr(conjunct: Conjunct, expr: Node, scope: DeclarationScope | None = None) -> Conjunct:
    return Conjunct(expr, conjunct.env, scope or conjunct.scope, conjunct.trail, conjunct.is_cyclic)


def _around(scope: DeclarationScope) -> DeclarationScope | None:
    """The scope that a declaration's own lies in; a struct with embeddings makes no difference."""
    around = scope.parent
    while around is not None and around.kind is Closing.UNIT:
        around = around.parent
    return around
