"""A tree as flat keys with text, each with the place that it comes from.

(reference: sync-stack 4.5)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from readers.tree import Kind, Tree
from sync_stack.core.file_errors import ShapingError

MAX_KEYS: Final = 50_000
Path = tuple[str, ...]


class Leaf(NamedTuple):
    """One value. `path` is where it stood in the tree; segments may hold dots themselves."""

    key: str
    text: str
    path: Path
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


def flatten(tree: Tree, *, file: str = "") -> list[Leaf]:
    """Every scalar; empty maps and lists vanish. Raises ShapingError(too_many_keys)."""
    found: list[Leaf] = []
    if tree.kind is not Kind.NULL:
        _collect(tree, (), file, found)
    return found


def _collect(tree: Tree, path: Path, file: str, found: list[Leaf]) -> None:
    if tree.kind is Kind.MAP:
        for key, value in tree.pairs.items():
            _collect(value, (*path, key), file, found)
    elif tree.kind is Kind.LIST:
        for index, value in enumerate(tree.items):
            _collect(value, (*path, str(index)), file, found)
    else:
        found.append(Leaf(".".join(path), tree.text, path, file, tree.line, tree.column))
        if len(found) > MAX_KEYS:
            raise too_many_keys(found[-1])


def too_many_keys(leaf: Leaf) -> ShapingError:
    return refusal("too_many_keys", f"more than {MAX_KEYS} keys", leaf)


def refusal(code: str, detail: str, leaf: Leaf, *, retryable: bool | None = None) -> ShapingError:
    file, line, column = leaf.file, leaf.line, leaf.column
    return ShapingError(code, detail, file=file, line=line, column=column, retryable=retryable)


def conflict(key: str, first: Leaf, second: Leaf) -> ShapingError:
    detail = f'two values for the key "{key[:80]}": here and at {first.place or "another place"}'
    return refusal("key_conflict", detail, second)


def flat_values(tree: Tree) -> Mapping[str, str]:
    """Flat keys and text, in the tree's order. Raises ShapingError(key_conflict)."""
    made: dict[str, Leaf] = {}
    for leaf in flatten(tree):
        if leaf.key in made:
            raise conflict(leaf.key, made[leaf.key], leaf)
        made[leaf.key] = leaf
    return {key: leaf.text for key, leaf in made.items()}
