r"""Values that depend on themselves: some have a meaning, the others are refused.

`a: b, b: a & {x: 1}` is one value under two names; a recursive definition ends where its data ends.
Both are read. Where a value is needed in order to know itself (`a: "\(a)"`, `a: len(a)`), the
result of the official program depends on its order of evaluation, so the file is refused. So is one
that leads back to itself by an optional field (`c: {k?: a}, a: b: c`): most are a cycle there. And
so is an alternative that contains itself without end (`a: [a] | *1`), which not all versions drop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cue.evaluation.vertex import Conjunct, Env, Path, Vertex, VertexState
from cue.faults import Broken
from cue.language import syntax
from cue.language.syntax import Label, Mark, Node

LET = "let "  # begins the label of a let, and no identifier
DEPENDS_ON_ITSELF = "a value that depends on itself"
WITHOUT_END = "the value contains itself without end"
_MOST_NAMES = 8  # of one value, each another name of the next


def depends_on_itself(node: Node) -> Broken:
    """The refusal of a reference whose value is needed to know that value."""
    return node.refusal(DEPENDS_ON_ITSELF)


def is_under_way(target: Vertex, conjunct: Conjunct, vertex: Vertex) -> bool:
    """Whether a reference needs a target that cannot be known before `vertex` is."""
    if target.state is VertexState.COLLECTING:
        return True
    if not vertex.is_operand:
        return False
    is_tried = target.current is not None
    return is_tried or any(passed.path == target.path for passed, _ in conjunct.trail)


def returns(target: Vertex, conjunct: Conjunct, earlier: list[Path]) -> bool:
    """Whether a let, or a member that its own struct is made of, contains itself.

    `earlier`: the places where the target was taken over, on the way to this reference.
    """
    last = target.path[-1] if target.path else 0
    is_let = isinstance(last, Label) and last.special and last.name.startswith(LET)
    return bool(earlier) and (is_let or _is_in_own_holder(target, conjunct, earlier))


def is_above(target: Vertex, vertex: Vertex) -> bool:
    depth = len(target.path)
    return depth < len(vertex.path) and vertex.path[:depth] == target.path


def leads_above(node: Node, env: Env | None, vertex: Vertex) -> bool:
    """Whether the value of an optional field is, or always holds, a struct around `vertex`."""
    return any(_names_above(each, env, vertex, _MOST_NAMES) for each in _parts(node))


def _parts(node: Node) -> Iterator[Node]:
    """Yield the references that a value consists of, those of its alternatives included."""
    if isinstance(node, (syntax.Reference, syntax.Selector)):
        yield node
    for each in _inside(node):
        yield from _parts(each)


def _inside(node: Node) -> Iterable[Node]:
    match node:
        case syntax.Parenthesis(inner=inner) | syntax.Aliased(value=inner):
            return (inner,)
        case syntax.Unification(parts=inside) | syntax.ListLiteral(items=inside):
            return inside
        case syntax.Disjunction(alternatives=alternatives):
            return (each for _, each in alternatives)
        case syntax.Struct(fields=fields, embeddings=embeddings):
            regular = [field.value for field in fields if field.mark is Mark.REGULAR]
            return [*regular, *(embedding.value for embedding in embeddings)]
        case _:
            return ()


def _names_above(node: Node, env: Env | None, vertex: Vertex, names: int) -> bool:
    named = _member_of(node, env)
    if named is None:
        return False
    holder, label = named
    path = (*holder.path, label)
    if vertex.path[: len(path)] == path:
        return True
    member = holder.arcs.get(label)
    return (
        names > 0
        and member is not None
        and any(
            _names_above(each, conjunct.env, vertex, names - 1)
            for conjunct in member.conjuncts
            for each in _parts(conjunct.expr)
            if isinstance(conjunct.expr, (syntax.Reference, syntax.Selector))
        )
    )


def _member_of(node: Node, env: Env | None) -> tuple[Vertex, Label] | None:
    """Return the struct and the member that a reference names, as far as it is written."""
    if isinstance(node, syntax.Selector):
        base = _member_of(node.base, env)
        member = base[0].arcs.get(base[1]) if base else None
        return None if member is None else (member, node.label)
    if not isinstance(node, syntax.Reference):
        return None
    while env is not None and node.name not in env.literal.names:
        env = env.up
    label = env.literal.names[node.name] if env else None
    return (env.vertex, label) if env and isinstance(label, Label) else None


def _is_in_own_holder(target: Vertex, conjunct: Conjunct, earlier: list[Path]) -> bool:
    """Whether an alternative of a struct, taken from a member of it, takes that member again."""
    holder = target.path[:-1]
    env = conjunct.env if holder in earlier else None
    while env is not None and (env.vertex.path != holder or env.vertex.origin is None):
        env = env.up
    return env is not None
