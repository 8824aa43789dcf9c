"""What names and operands stand for: targets of references, concrete values of expressions."""

from __future__ import annotations

from decimal import Decimal
from itertools import chain

from kernel.cue import syntax
from kernel.cue.choices import first_faults
from kernel.cue.closing import is_closed
from kernel.cue.cycles import LET, depends_on_itself
from kernel.cue.faults import Budget, Fault
from kernel.cue.scalars import Scalar, Type
from kernel.cue.syntax import Label, Node
from kernel.cue.vertex import Conjunct, Declared, Env, Key, State, Vertex

_IN_TEXT = Type.STRING | Type.NUMBER | Type.BOOL
_AMBIGUOUS = "depends on a value that is ambiguous"
_NOT_CONCRETE = "depends on a value that is not concrete"
_OPEN = (_AMBIGUOUS, _NOT_CONCRETE)
_PLAIN = (
    syntax.Number,
    syntax.Constant,
    syntax.Interpolation,
    syntax.Sign,
    syntax.Bound,
    syntax.Call,
)


class Operands:
    budget: Budget

    def collect(self, vertex: Vertex) -> None:
        raise NotImplementedError

    def complete(self, vertex: Vertex) -> None:
        raise NotImplementedError

    def declaring(self, name: str, env: Env | None) -> Env | None:
        """The innermost struct, as written, that declares a name."""
        while env is not None and name not in env.literal.names:
            env = env.up
        return env

    def target(self, expr: Node, env: Env | None, vertex: Vertex) -> Vertex | None:
        """The vertex that a reference names; None, with the reason noted, when there is none."""
        match expr:
            case syntax.Reference():
                return self._named(expr, env, vertex)
            case syntax.Selector(base=base, label=label):
                return self._member(base, label, expr, env, vertex)
            case syntax.Index(base=base, index=index):
                key = self._key(index, env, vertex)
                return None if key is None else self._member(base, key, expr, env, vertex)
            case syntax.Parenthesis(inner=inner):
                return self.target(inner, env, vertex)
            case _:
                made = self._temporary(expr, Conjunct(expr, env), vertex)
                self.collect(made)
                return made

    def _named(self, expr: syntax.Reference, env: Env | None, vertex: Vertex) -> Vertex | None:
        found = self.declaring(expr.name, env)
        if found is None:
            return self._temporary(expr, Conjunct(expr, env), vertex)
        declared = found.literal.names[expr.name]
        if isinstance(declared, syntax.Let):
            return self._let(declared, found)
        member = found.vertex.view().arcs.get(declared)
        if member is None:
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
        self.collect(holder)
        view = holder.view()
        member = view.arcs.get(key)
        if member is not None:
            return member
        is_known = view.state is not State.COLLECTING
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
            return bool(vertex.lists) and not all(literal.is_open for literal, _ in vertex.lists)
        if key.is_hidden or not is_closed(vertex):
            return False
        found = (declared for declared in chain(*vertex.declared.values()))
        return not any(self._may_declare(declared, key) for declared in found)

    def _may_declare(self, declared: Declared, label: Label) -> bool:
        literal = declared.literal
        if literal.is_open or any(field.label == label for field in literal.fields):
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
        """Whether a name stands for an expression that is no struct, list, reference or choice."""
        if not isinstance(base, syntax.Reference):
            return False
        found = self.declaring(base.name, env)
        declared = found.literal.names[base.name] if found is not None else None
        if not isinstance(declared, syntax.Let):
            return False
        value = _bare(declared.value)
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
        vertex.faults.append(Fault(index.line, index.column, "wrong_type", message))
        return None

    def evaluated(self, expr: Node, conjunct: Conjunct, vertex: Vertex) -> Vertex | None:
        """The settled value of an expression; None, with the reason noted, while there is none."""
        expr = _bare(expr)
        found = self._operand(expr, conjunct, vertex)
        if found is None:
            return None
        self.collect(found)
        if found.failed or found.faults:
            vertex.faults.extend(first_faults(found)[:1])
            return None
        settled = found.settled()
        if found.state is State.COLLECTING or found.current is not None:
            raise depends_on_itself(expr)
        if settled is None:
            vertex.reasons.append(_reason(expr, _AMBIGUOUS))
        elif settled.reasons:
            vertex.reasons.append(settled.reasons[0])
        else:
            return settled
        return None

    def _operand(self, expr: Node, conjunct: Conjunct, vertex: Vertex) -> Vertex | None:
        if isinstance(expr, syntax.Reference | syntax.Selector | syntax.Index):
            return self.target(expr, conjunct.env, vertex)
        made = self._temporary(expr, conjunct, vertex)
        if not isinstance(_closed(expr), syntax.Struct):
            self.complete(made)
        return made

    def concrete(
        self, expr: Node, conjunct: Conjunct, vertex: Vertex, wanted: Type = Type.TOP
    ) -> Scalar | None:
        """The scalar that an expression is; None, with the reason noted, while it is none."""
        found = self.evaluated(expr, conjunct, vertex)
        if found is None:
            return None
        if found.faults:
            first = found.faults[0]
            vertex.faults.append(Fault(first.line, first.column, first.code, first.message))
            return None
        if not found.facts.types & wanted:
            message = f"{found.facts.types.words()} where {wanted.words()} is required"
            vertex.faults.append(Fault(expr.line, expr.column, "wrong_type", message))
            return None
        if found.facts.scalar is None:
            vertex.reasons.append(_reason(expr, _NOT_CONCRETE))
        return found.facts.scalar

    def computed(self, node: Node, conjunct: Conjunct, vertex: Vertex) -> Scalar | Fault | None:
        """The value of a sign, an interpolation or `len`."""
        match node:
            case syntax.Sign(operator=operator, operand=operand):
                return self._signed(
                    node, operator, self.concrete(operand, conjunct, vertex, Type.NUMBER)
                )
            case syntax.Interpolation():
                return self._interpolated(node, conjunct, vertex)
            case syntax.Call(argument=argument):
                found = self.evaluated(argument, conjunct, vertex)
                return None if found is None else self._length(node, found, vertex)
            case _:
                return Fault(node.line, node.column, "unsupported_cue", "an unknown expression")

    def _signed(self, node: Node, operator: str, found: Scalar | None) -> Scalar | Fault | None:
        if found is None:
            return None
        if operator == "+" or not isinstance(found.content, Decimal) or not found.content:
            return Scalar(found.type, found.content, found.text, node.line, node.column)
        text = found.text[1:] if found.text.startswith("-") else f"-{found.text}"
        return Scalar(found.type, found.content.copy_negate(), text, node.line, node.column)

    def _interpolated(
        self, node: syntax.Interpolation, conjunct: Conjunct, vertex: Vertex
    ) -> Scalar | Fault | None:
        texts = []
        for part in node.parts:
            known = len(vertex.reasons)
            found = self.concrete(part, conjunct, vertex, _IN_TEXT)
            if found is None:
                is_absent = any(reason.message not in _OPEN for reason in vertex.reasons[known:])
                vertex.is_patchy = is_absent and isinstance(_bare(part), syntax.Unification)
                return None
            texts.append(found.text)
        self.budget.text(sum(map(len, texts)))
        text = "".join(texts)
        return Scalar(Type.STRING, text, text, node.line, node.column)

    def _length(self, node: Node, found: Vertex, vertex: Vertex) -> Scalar | Fault | None:
        facts = found.facts
        if isinstance(facts.scalar, Scalar) and facts.scalar.type is Type.STRING:
            count = len(facts.scalar.text.encode())
        elif facts.types is Type.LIST and found.lists:
            count = len(found.items())
        elif facts.types is Type.STRUCT:
            count = sum(1 for key in found.arcs if isinstance(key, Label) and not key.special)
        elif facts.scalar is None and facts.types & (Type.STRING | Type.LIST | Type.STRUCT):
            vertex.reasons.append(_reason(node, _NOT_CONCRETE))
            return None
        else:
            return Fault(node.line, node.column, "wrong_type", f"len of {facts.types.words()}")
        return Scalar(Type.INT, Decimal(count), str(count), node.line, node.column)

    def pattern_holds(self, pattern: Node, conjunct: Conjunct, name: str, vertex: Vertex) -> bool:
        """Whether a label matches the pattern of `[pattern]: T`."""
        label = syntax.Constant(value=name)
        made = self._temporary(pattern, conjunct, vertex)
        made.conjuncts.append(Conjunct(label, None))
        self.budget.step()
        self.collect(made)
        vertex.reasons.extend(made.reasons)
        return not made.faults


def _bare(expr: Node) -> Node:
    while isinstance(expr, syntax.Parenthesis):
        expr = expr.inner
    return expr


def _closed(expr: Node) -> Node:
    """What `close()` is given, or the expression itself."""
    if isinstance(expr, syntax.Call) and expr.function == "close":
        return _bare(expr.argument)
    return expr


def _reason(node: Node, message: str) -> Fault:
    return Fault(node.line, node.column, "not_concrete", message)


def _miss(expr: Node, message: str, vertex: Vertex, *, is_final: bool = False) -> None:
    """Unless final an error only where the value is needed, but it drops an alternative."""
    (vertex.faults if is_final else vertex.reasons).append(_reason(expr, message))
