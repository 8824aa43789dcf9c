"""The part of a file that counts: below the root key, for one environment.

(reference: sync-stack 4.5)
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Final

from readers.diagnostics import Diagnostic, dotted
from readers.tree import Kind, Tree
from sync_stack.core.file_errors import ShapingError

DEFAULT_ROOT_KEY: Final = "partita"
DEFAULT: Final = "default"


def take_root(tree: Tree, root_key: str | None, *, file: str) -> Tree:
    """Return the subtree below the root key: a member's name, else names joined by dots.

    None stands for `partita` or, where that is absent, the whole file; "" for the whole file.
    Raise ShapingError(root_key_missing).
    """
    if root_key == "":
        return tree
    found = _member(tree, DEFAULT_ROOT_KEY if root_key is None else root_key)
    if found is not None:
        return found
    if root_key is None:
        return tree
    raise ShapingError(
        "root_key_missing",
        f'no "{root_key[:80]}" in the file',
        file=file,
        line=tree.line,
        column=tree.column,
    )


def _member(tree: Tree, root_key: str) -> Tree | None:
    whole = tree.get(root_key)
    if whole is not None:
        return whole
    found: Tree | None = tree
    for segment in root_key.split("."):
        found = found.get(segment) if found else None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliced:
    """`env_absent`: the file has blocks of environments, none for this one, and nothing else."""

    tree: Tree
    env_absent: bool = False
    warnings: tuple[Diagnostic, ...] = ()


def slice_environment(tree: Tree, *, current: str, known: Set[str], file: str) -> Sliced:
    """Return the file's content for `current`; `known`: the other environments but `default`."""
    names = known | {DEFAULT, current}
    blocks = {key: value for key, value in tree.pairs.items() if value.kind is Kind.MAP}
    if blocks and blocks.keys() <= names:
        return _of_blocks(tree, blocks, current)
    slicer = _Slicer(current=current, names=names, file=file)
    kept = slicer.value(tree, ())
    return Sliced(
        tree=kept or replace(tree, pairs={}),
        env_absent=kept is None,
        warnings=tuple(slicer.warnings),
    )


def _of_blocks(tree: Tree, blocks: dict[str, Tree], current: str) -> Sliced:
    """Merge the scalars at the top, the block `default` and the current block."""
    scalars = {key: value for key, value in tree.pairs.items() if key not in blocks}
    merged = replace(tree, pairs=scalars)
    chosen = [blocks[name] for name in dict.fromkeys((DEFAULT, current)) if name in blocks]
    for block in chosen:
        merged = _merged(merged, block)
    return Sliced(tree=merged, env_absent=not chosen and not scalars)


def _merged(under: Tree, over: Tree) -> Tree:
    """Maps member by member, anything else whole."""
    if under.kind is not Kind.MAP or over.kind is not Kind.MAP:
        return over
    pairs = dict(under.pairs)
    for key, value in over.pairs.items():
        pairs[key] = _merged(pairs[key], value) if key in pairs else value
    return replace(over, pairs=pairs)


class _Slicer:
    """Replaces maps of environments inside a file by what they say for one of them."""

    def __init__(self, *, current: str, names: Set[str], file: str) -> None:
        self.current = current
        self.names = names
        self.file = file
        self.warnings: list[Diagnostic] = []

    def inside(self, tree: Tree, path: tuple[str | int, ...]) -> Tree:
        """Return a map or list with its members sliced, anything else unchanged."""
        if tree.kind is Kind.MAP:
            members = [(key, self.value(value, (*path, key))) for key, value in tree.pairs.items()]
            return replace(tree, pairs={key: kept for key, kept in members if kept is not None})
        if tree.kind is Kind.LIST:
            kept = [self.value(item, (*path, index)) for index, item in enumerate(tree.items)]
            return replace(tree, items=tuple(item for item in kept if item is not None))
        return tree

    def value(self, tree: Tree, path: tuple[str | int, ...]) -> Tree | None:
        """Return a value for this environment, or None when it is for others only."""
        members = tree.pairs
        if not members or not members.keys() <= self.names:
            return self.inside(tree, path)
        if self.current in members and self.current != DEFAULT:
            return self.value(members[self.current], (*path, self.current))
        if len(members) == 1:
            return self.inside(tree, path)
        if DEFAULT in members:
            return self.value(members[DEFAULT], (*path, DEFAULT))
        self.warn(tree, path)
        return None

    def warn(self, tree: Tree, path: tuple[str | int, ...]) -> None:
        self.warnings.append(
            Diagnostic(
                file=self.file,
                line=tree.line,
                column=tree.column,
                path=dotted(path),
                code="env_not_in_file",
                severity="warning",
                message=f"left out: it has values for other environments than {self.current} only",
            )
        )
