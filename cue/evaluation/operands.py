"""Targets of references and values of operands."""

from __future__ import annotations

from decimal import Decimal
from itertools import chain
from typing import Protocol, cast

from cue.builtins import CORE, PACKAGES, BuiltinConstant, Function
from cue.evaluation.closedness import is_closed
from cue.evaluation.cycles import LET, depends_on_itself
from cue.evaluation.disjunctions import first_faults
from cue.evaluation.vertex import Conjunct, Declared, Env, Key, Vertex, VertexState
from cue.faults import Budget, Fault, broken_at
from cue.language import syntax
from cue.language.syntax import Label, Node
from cue.scalars import Scalar, Type

_AMBIGUOUS = "depends on a value that is ambiguous"
NOT_CONCRETE = "depends on a value that is not concrete"
OPEN = (_AMBIGUOUS, NOT_CONCRETE)
_PLAIN = (
    syntax.Number,
    syntax.Constant,
    syntax.Interpolation,
    syntax.Sign,
    syntax.Bound,
    syntax.Call,
    syntax.Operation,
)


class Unifier(Protocol):
    """What unifies the conjuncts of a vertex; the parts of the evaluator call back to it."""

    budget: Budget

    def collect(self, vertex: Vertex) -> None:
        """Bring together what must hold here; members get their conjuncts but no values yet."""

    def complete(self, vertex: Vertex) -> None:
        """The same for every member below; sets `failed`."""

    def take(self, vertex: Vertex, conjunct: Conjunct) -> None:
        """One conjunct: split it, follow it, or note what it says."""

    def take_embedded(self, vertex: Vertex) -> None:
        """Take the embeddings that wait."""


class Operands:
    """What references, selectors and indexes name, and the values of operands."""

    def __init__(self, unifier: Unifier) -> None:
        self.unifier = unifier
        self.budget = unifier.budget

    def declaring(self, name: str, env: Env | None) -> Env | None:
        """The innermost struct, as written, that declares a name."""
        while env is not None and name not in env.literal.names:
            env = env.up
        return env

    def target(self, expr: Node, env: Env | None, vertex: Vertex) -> Vertex | None:
        """Return the vertex that a reference names; None, with the reason noted, without one."""
        found: Vertex | None
        match bare(expr):
            case syntax.Reference() as named:
                found = self._resolve_name(named, env, vertex)
            case syntax.Selector(base=base, label=label) if not self.of_package(bare(expr), env):
                found = self._member(base, label, expr, env, vertex)
            case syntax.Index(base=base, index=index):
                key = self._key(index, env, vertex)
                found = None if key is None else self._member(base, key, expr, env, vertex)
            case syntax.Known(vertex=known):
                found = cast(Vertex, known)
            case other:
                found = self._temporary(other, Conjunct(other, env), vertex)
                self.unifier.collect(found)
        return found

    def _resolve_name(
        self, expr: syntax.Reference, env: Env | None, vertex: Vertex
    ) -> Vertex | None:
        found = self.declaring(expr.name, env)
        if found is None:
            return self._temporary(expr, Conjunct(expr, env), vertex)
        declared = found.literal.names[expr.name]
        if isinstance(declared, syntax.Let):
            return self._let(declared, found)
        if isinstance(declared, syntax.Import):
            raise broken_at(expr.line, expr.column, f"the package {expr.name} is not a value")
        view = found.vertex.view()
        member = view.arcs.get(declared)
        if member is None:
            _look_for(view, declared)
            is_final = found.vertex.facts.scalar is not None and not declared.special
            _miss(expr, f"the optional field {expr.name} is absent", vertex, is_final=is_final)
        return member

    def _let(self, declared: syntax.Let, env: Env) -> Vertex:
        lets = env.vertex.lets
        if (declared, env) not in lets:
            path = (
                *env.vertex.path,
                Label(f"{LET}{declared.line}:{declared.column}", special=True),
            )
            lets[declared, env] = Vertex(path, [Conjunct(declared.value, env)])
        return lets[declared, env]

    def _temporary(self, expr: Node, conjunct: Conjunct, vertex: Vertex) -> Vertex:
        path = (*vertex.path, Label(f"operand {expr.line}:{expr.column}", special=True))
        return Vertex(path, [Conjunct(expr, conjunct.env, None, conjunct.trail)], is_operand=True)

    def _member(
        self, base: Node, key: Key, expr: Node, env: Env | None, vertex: Vertex
    ) -> Vertex | None:
        holder = self.target(base, env, vertex)
        if holder is None:
            return None
        self.unifier.collect(holder)
        view = holder.view()
        member = view.arcs.get(key)
        if member is not None:
            return member
        _look_for(view, key)
        is_known = view.state is not VertexState.COLLECTING
        is_special = isinstance(key, Label) and key.special
        wanted = Type.LIST if isinstance(key, int) else Type.STRUCT
        if not view.facts.types & wanted and not view.faults:
            message = f"a member is taken of {view.facts.types.words()}"
            is_final = is_known or view.facts.scalar is not None
            is_final = self._is_plain_let(base, env) if is_special else is_final
            _miss(expr, message, vertex, is_final=is_final)
        else:
            name = key if isinstance(key, int) else key.name
            is_final = is_known and self._never_has(view, key)
            _miss(expr, f"there is no field {name}", vertex, is_final=is_final)
        return None

    def _never_has(self, vertex: Vertex, key: Key) -> bool:
        """Whether a struct is closed to a field, or a list too short for an index, for good."""
        if isinstance(key, int):
            return bool(vertex.lists) and not all(each.literal.is_open for each in vertex.lists)
        if key.is_hidden or not is_closed(vertex):
            return False
        found = (declared for declared in chain(*vertex.declared.values()))
        return not any(self._may_declare(declared, key) for declared in found)

    def _may_declare(self, declared: Declared, label: Label) -> bool:
        literal = declared.literal
        if literal.is_open or any(field.label == label for field in literal.fields):
            return True
        if literal.dynamic:
            return True
        return self.has_pattern(declared, label)

    def has_pattern(self, declared: Declared, label: Label) -> bool:
        """Whether a pattern of a struct covers a label."""
        return not label.special and any(
            self.pattern_holds(
                pattern.pattern,
                Conjunct(pattern.pattern, declared.env),
                label.name,
                declared.env.vertex,
            )
            for pattern in declared.literal.patterns
        )

    def _is_plain_let(self, base: Node, env: Env | None) -> bool:
        """Whether a name stands for something else than a struct, list, reference or choice."""
        if not isinstance(base, syntax.Reference):
            return False
        found = self.declaring(base.name, env)
        declared = found.literal.names[base.name] if found is not None else None
        if not isinstance(declared, syntax.Let):
            return False
        value = bare(declared.value)
        if isinstance(value, syntax.Reference):
            return self.declaring(value.name, found) is None
        return isinstance(value, _PLAIN)

    def _key(self, index: Node, env: Env | None, vertex: Vertex) -> Key | None:
        found = self.concrete(index, Conjunct(index, env), vertex)
        if found is None:
            return None
        if found.type is Type.STRING:
            return Label(str(found.content))
        if found.type is Type.INT and isinstance(found.content, Decimal) and found.content >= 0:
            return int(found.content)
        message = f"the index is {found.type.words()}"
        vertex.faults.append(index.fault("wrong_type", message))
        return None

    def evaluate(self, expr: Node, conjunct: Conjunct, vertex: Vertex) -> Vertex | None:
        """Return the settled value of an expression; None, with the reason noted, without one."""
        expr = bare(expr)
        found = self.operand(expr, conjunct, vertex)
        if found is None:
            return None
        self.unifier.collect(found)
        if found.failed or found.faults:
            vertex.faults.extend(first_faults(found)[:1])
            return None
        settled = found.resolve_choices()
        if found.state is VertexState.COLLECTING or found.current is not None:
            raise depends_on_itself(expr)
        if settled is None:
            vertex.reasons.append(reason(expr, _AMBIGUOUS))
        elif settled.reasons:
            vertex.reasons.append(settled.reasons[0])
        else:
            return settled
        return None

    def operand(self, expr: Node, conjunct: Conjunct, vertex: Vertex) -> Vertex | None:
        references = syntax.Reference | syntax.Selector | syntax.Index | syntax.Known
        if isinstance(expr, references) and not self.of_package(expr, conjunct.env):
            return self.target(expr, conjunct.env, vertex)
        made = self._temporary(expr, conjunct, vertex)
        if not isinstance(_argument_of_close(expr), syntax.Struct):
            self.unifier.complete(made)
        return made

    def of_package(self, expr: Node, env: Env | None) -> Function | BuiltinConstant | None:
        """Return the member of an imported package that a selector names, or None."""
        if not isinstance(expr, syntax.Selector) or not isinstance(expr.base, syntax.Reference):
            return None
        name = expr.base.name
        found = self.declaring(name, env)
        declared = found.literal.names[name] if found is not None else None
        if not isinstance(declared, syntax.Import):
            return None
        return PACKAGES[declared.path][expr.label.name]

    def function(self, expr: Node, env: Env | None) -> Function | None:
        """Return the function that a call names; None where a field or let has the name."""
        found: Function | BuiltinConstant | None
        if isinstance(expr, syntax.Reference):
            found = None if self.declaring(expr.name, env) else CORE.get(expr.name)
        else:
            found = self.of_package(expr, env)
        return found if isinstance(found, Function) else None

    def concrete(
        self, expr: Node, conjunct: Conjunct, vertex: Vertex, wanted: Type = Type.TOP
    ) -> Scalar | None:
        """Return the scalar of an expression; None, with the reason noted, without one."""
        found = self.evaluate(expr, conjunct, vertex)
        if found is None:
            return None
        if found.faults:
            first = found.faults[0]
            vertex.faults.append(Fault(first.line, first.column, first.code, first.message))
            return None
        if not found.facts.types & wanted:
            message = f"{found.facts.types.words()} where {wanted.words()} is required"
            vertex.faults.append(expr.fault("wrong_type", message))
            return None
        if found.facts.scalar is None:
            vertex.reasons.append(reason(expr, NOT_CONCRETE))
        return found.facts.scalar

    def pattern_holds(self, pattern: Node, conjunct: Conjunct, name: str, vertex: Vertex) -> bool:
        """Whether a label matches the pattern of `[pattern]: T`."""
        label = syntax.Constant(value=name)
        made = self._temporary(pattern, conjunct, vertex)
        made.conjuncts.append(Conjunct(label, None))
        self.budget.step()
        self.unifier.collect(made)
        vertex.reasons.extend(made.reasons)
        return not made.faults


def bare(expr: Node) -> Node:
    while isinstance(expr, syntax.Parenthesis):
        expr = expr.inner
    return expr


def _argument_of_close(expr: Node) -> Node:
    """What `close()` is given, or the expression itself."""
    match expr:
        case syntax.Call(function=syntax.Reference(name="close"), arguments=(argument,)):
            return bare(argument)
        case _:
            return expr


def reason(node: Node, message: str) -> Fault:
    return node.fault("not_concrete", message)


def _look_for(view: Vertex, key: Key) -> None:
    """Note that a struct whose fields are still brought together lacks one."""
    if view.state is VertexState.COLLECTING:
        view.absent.add(key)


def _miss(expr: Node, message: str, vertex: Vertex, *, is_final: bool = False) -> None:
    """Unless final an error only where the value is needed, but it drops an alternative."""
    (vertex.faults if is_final else vertex.reasons).append(reason(expr, message))
