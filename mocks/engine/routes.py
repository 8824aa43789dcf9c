"""Which operation a method and a path mean: a trie per method (reference: control-plane 18.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar
from urllib.parse import unquote

T = TypeVar("T")
MAX_SEGMENTS: Final = 200
_PARAMETER: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class _Mixed:
    """A segment of literals and parameters, such as `{owner}:{name}`."""

    literals: tuple[str, ...]  # one more than names
    names: tuple[str, ...]

    def values(self, segment: str) -> list[str] | None:
        """Return what stands for the parameters, each as short as possible; None is no match."""
        first, last = self.literals[0], self.literals[-1]
        end = len(segment) - len(last)
        if not (segment.startswith(first) and segment.endswith(last)) or end <= len(first):
            return None
        found: list[str] = []
        at = len(first)
        for literal in self.literals[1:-1]:
            stop = segment.find(literal, at + 1, end)
            if stop < 0:
                return None
            found.append(segment[at:stop])
            at = stop + len(literal)
        return [*found, segment[at:end]] if at < end else None


@dataclass(slots=True)
class _Node(Generic[T]):
    literals: dict[str, _Node[T]] = field(default_factory=dict)
    mixed: list[tuple[_Mixed, _Node[T]]] = field(default_factory=list)
    parameter: _Node[T] | None = None
    leaf: tuple[T, tuple[str, ...]] | None = None  # with the names of its parameters


class Routes(Generic[T]):
    """Path templates to targets. Of two that match, literals beat parameters, then the first added.

    A segment that holds literals and parameters stands between both.
    """

    def __init__(self) -> None:
        self._roots: dict[str, _Node[T]] = {}
        self._literal: dict[tuple[str, str], tuple[T, dict[str, str]]] = {}

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self._roots)

    def add(self, method: str, template: str, target: T) -> None:
        """Add a route; the first one of two that match the same paths stays.

        A template with more than `MAX_SEGMENTS` segments is never found.
        """
        parts = segments(template)
        if len(parts) > MAX_SEGMENTS:
            return
        node = self._roots.setdefault(method, _Node())
        names: list[str] = []
        for segment in parts:
            node = _child(node, segment, names)
        if node.leaf is not None:
            return
        node.leaf = (target, tuple(names))
        if not names and "%" not in template and "{" not in template:
            self._literal[method, f"/{template.removeprefix('/')}"] = (target, {})

    def find(self, method: str, path: str) -> tuple[T, dict[str, str]] | None:
        """Return the target of a raw path and the decoded parameters; HEAD also finds GET."""
        found = self._literal.get((method, path)) or self._walk(method, path)
        return self.find("GET", path) if found is None and method == "HEAD" else found

    def methods_at(self, path: str) -> tuple[str, ...]:
        """Return the methods that have a target at a raw path."""
        return tuple(method for method in self._roots if self._walk(method, path) is not None)

    def _walk(self, method: str, path: str) -> tuple[T, dict[str, str]] | None:
        root = self._roots.get(method)
        if root is None:
            return None
        found = _match(root, segments(path), 0, [])
        if found is None:
            return None
        (target, names), values = found
        return target, dict(zip(names, values, strict=True))


def segments(path: str) -> list[str]:
    """Return the decoded segments of a path, with or without its leading slash."""
    parts = path.removeprefix("/").split("/")
    return [unquote(part) for part in parts] if "%" in path else parts


def _child(node: _Node[T], segment: str, names: list[str]) -> _Node[T]:
    pieces = _PARAMETER.split(segment)  # literal, name, literal, …
    if len(pieces) == 1:
        return node.literals.setdefault(segment, _Node())
    names += pieces[1::2]
    if pieces[0] == pieces[2] == "" and len(pieces) == len(("", "name", "")):
        node.parameter = node.parameter or _Node()
        return node.parameter
    mixed = _Mixed(tuple(pieces[::2]), tuple(pieces[1::2]))
    for known, below in node.mixed:
        if known.literals == mixed.literals:
            return below
    below = _Node[T]()
    node.mixed.append((mixed, below))
    return below


def _match(
    node: _Node[T], parts: list[str], at: int, values: list[str]
) -> tuple[tuple[T, tuple[str, ...]], list[str]] | None:
    """Return the leaf of a path; each node of the trie is visited at most once."""
    for place in range(at, len(parts)):
        segment = parts[place]
        below = node.literals.get(segment)
        if below is not None and node.parameter is None and not node.mixed:
            node = below  # the only way on
            continue
        if below is not None and (found := _match(below, parts, place + 1, values.copy())):
            return found
        if node.mixed and (found := _mixed_match(node, parts, place, values)):
            return found
        if node.parameter is None or not segment:
            return None
        values.append(segment)
        node = node.parameter
    return (node.leaf, values) if node.leaf else None


def _mixed_match(
    node: _Node[T], parts: list[str], at: int, values: list[str]
) -> tuple[tuple[T, tuple[str, ...]], list[str]] | None:
    for mixed, below in node.mixed:
        more = mixed.values(parts[at])
        if more is not None and (found := _match(below, parts, at + 1, [*values, *more])):
            return found
    return None
