"""The fields that a closed struct allows.

Every declaration of a struct lies in a scope: that of a definition it came from, of `close()`, of a
struct with embeddings. A field must be declared in every closed scope, or below it; what an
embedding forbids, the struct around it may still declare.
"""

from __future__ import annotations

from collections.abc import Callable

from cue.evaluation.vertex import Closing, DeclarationScope, Declared, Key, Vertex
from cue.language.syntax import Label

Matches = Callable[[Declared, Label], bool]


def is_closed(vertex: Vertex) -> bool:
    """Whether some declaration of a struct closes it."""
    scopes = (scope for scope in vertex.declared if scope is not None)
    depth = len(vertex.path)
    return any(above.is_closed(depth) for scope in scopes for above in scope.chain())


class Closedness:
    """The scopes of one struct; `matches` tells whether a pattern covers a label."""

    def __init__(self, vertex: Vertex, matches: Matches) -> None:
        self.declared = vertex.declared
        self.depth = len(vertex.path)
        self.matches = matches
        self.is_uncertain = False  # editions of CUE disagree on what is allowed
        self.children: dict[DeclarationScope | None, list[DeclarationScope]] = {}
        seen: set[DeclarationScope] = set()
        for declared in self.declared:
            scope = declared
            while scope is not None and scope not in seen:
                seen.add(scope)
                self.children.setdefault(scope.parent, []).append(scope)
                scope = scope.parent
        self.any_closed = any(scope.is_closed(self.depth) for scope in seen)

    def forbids(self, label: Label) -> bool:
        return self.any_closed and not label.special and self._forbids(None, label)

    def is_in_all(self, key: Key) -> bool:
        """Whether every literal allows a field."""
        every = (declared for found in self.declared.values() for declared in found)
        return not isinstance(key, Label) or all(self._allows(each, key) for each in every)

    def _forbids(self, scope: DeclarationScope | None, label: Label) -> bool:
        if self._is_closed(scope) and not self._has(scope, label):
            widest = _widest(scope)
            if widest is scope or not self._has(widest, label):
                return True
            parent = scope.parent if scope is not None else None
            embedding = Closing.UNIT, Closing.EMBEDDING
            self.is_uncertain |= parent is not None and parent.kind in embedding
        return any(self._violates(scope, child, label) for child in self._below(scope))

    def _violates(
        self, scope: DeclarationScope | None, child: DeclarationScope, label: Label
    ) -> bool:
        if child.kind is not Closing.EMBEDDING:
            return self._forbids(child, label)
        if self._declares_around(scope, label) or not self._has(child, label):
            return False
        return self._forbids(child, label)

    def _declares_around(self, scope: DeclarationScope | None, label: Label) -> bool:
        if self._declares(scope, label):
            return True
        owns = (child for child in self._below(scope) if child.kind is Closing.OWN)
        if any(self._has(own, label) for own in owns):
            self.is_uncertain = True
            return True
        return False

    def _is_closed(self, scope: DeclarationScope | None) -> bool:
        if scope is None:
            return False
        if scope.kind is Closing.UNIT:
            return any(self._is_closed_below(child) for child in self._below(scope))
        return scope.is_closed(self.depth)

    def _is_closed_below(self, scope: DeclarationScope) -> bool:
        return scope.is_closed(self.depth) or any(map(self._is_closed_below, self._below(scope)))

    def _below(self, scope: DeclarationScope | None) -> list[DeclarationScope]:
        return self.children.get(scope, [])

    def _has(self, scope: DeclarationScope | None, label: Label) -> bool:
        return self._declares(scope, label) or any(
            self._has(child, label) for child in self._below(scope)
        )

    def _declares(self, scope: DeclarationScope | None, label: Label) -> bool:
        return any(self._allows(declared, label) for declared in self.declared.get(scope, ()))

    def _allows(self, declared: Declared, label: Label) -> bool:
        literal = declared.literal
        if literal.is_open or any(field.label == label for field in literal.fields):
            return True
        return bool(literal.patterns) and self.matches(declared, label)


def _widest(scope: DeclarationScope | None) -> DeclarationScope | None:
    """Return the scope that is closed together: a definition includes its embeddings."""
    if scope is not None and scope.kind is Closing.OWN:
        around = scope.parent
        while around is not None and around.kind in (Closing.UNIT, Closing.EMBEDDING):
            around = around.parent
        return around
    return scope
