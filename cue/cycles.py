r"""Values that depend on themselves: some have a meaning, the others are refused.

`a: b, b: a & {x: 1}` is one value under two names; a recursive definition ends where its data ends.
Both are read. Where a value is needed in order to know itself (`a: "\(a)"`, `a: len(a)`), the
result of the official program depends on its order of evaluation, so the file is refused.
"""

from __future__ import annotations

from cue.faults import Broken
from cue.syntax import Label, Node
from cue.vertex import Conjunct, Path, Vertex, VertexState

LET = "let "  # begins the label of a let, and no identifier
DEPENDS_ON_ITSELF = "a value that depends on itself"


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


def _is_in_own_holder(target: Vertex, conjunct: Conjunct, earlier: list[Path]) -> bool:
    """Whether an alternative of a struct, taken from a member of it, takes that member again."""
    holder = target.path[:-1]
    env = conjunct.env if holder in earlier else None
    while env is not None and (env.vertex.path != holder or env.vertex.origin is None):
        env = env.up
    return env is not None
