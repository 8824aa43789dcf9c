"""The steps from files to settings: root key, environment, schema, keys, secrets, limits.

(reference: sync-stack 4.5, 4.6)
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from readers.diagnostics import Diagnostic, dotted_path
from readers.tree import Kind, Tree
from sync_stack.core.bundle.rules import EnvSlice
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.shaping.leaves import (
    Leaf,
    apply_variables,
    check_leaves,
    flatten,
    format_keys,
    unique,
)
from sync_stack.core.shaping.model import (
    Shaped,
    ShapedFile,
    ShapedKey,
    ShapingRules,
    SourceFile,
)
from sync_stack.core.shaping.schema import check_schema
from sync_stack.core.shaping.schema_json import Marks
from sync_stack.core.shaping.secrets import marker_of, secret_of

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
        merged = _merge(merged, block)
    return Sliced(tree=merged, env_absent=not chosen and not scalars)


def _merge(under: Tree, over: Tree) -> Tree:
    """Merge maps member by member; replace anything else whole."""
    if under.kind is not Kind.MAP or over.kind is not Kind.MAP:
        return over
    pairs = dict(under.pairs)
    for key, value in over.pairs.items():
        pairs[key] = _merge(pairs[key], value) if key in pairs else value
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
                path=dotted_path(path),
                code="env_not_in_file",
                severity="warning",
                message=f"left out: it has values for other environments than {self.current} only",
            )
        )


_UNMARKED: Final = Marks()


def shape(files: Sequence[SourceFile], rules: ShapingRules) -> Shaped:
    """Return the settings of one target from all of its files. Raise ShapingError."""
    prepared = [_prepare(file, rules) for file in files]
    present = [file for file in prepared if not file.shaped.env_absent]
    leaves: dict[str, Leaf] = {}
    if present or not prepared:
        found = unique((leaf.key, leaf) for file in present for leaf in file.leaves)
        renamed = apply_variables(found, rules.variables_map)
        leaves = check_leaves(unique(format_keys(renamed, rules.key_format)))
    marks = {file.shaped.file: file.marks for file in present}
    keys = {
        key: _shaped_key(leaf, marks.get(leaf.file, _UNMARKED), rules)
        for key, leaf in leaves.items()
    }
    return Shaped(
        values={key: leaf.text for key, leaf in leaves.items() if keys[key].secret is None},
        keys=keys,
        files=tuple(file.shaped for file in prepared),
        warnings=tuple(warning for file in prepared for warning in file.warnings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    shaped: ShapedFile
    leaves: list[Leaf]
    marks: Marks
    warnings: tuple[Diagnostic, ...]


def _prepare(source: SourceFile, rules: ShapingRules) -> _Prepared:
    sliced = Sliced(tree=take_root(source.tree, rules.root_key, file=source.file))
    if rules.env_slice is not EnvSlice.OFF:
        sliced = slice_environment(
            sliced.tree, current=rules.environment, known=rules.environments, file=source.file
        )
    if sliced.env_absent:
        shaped = ShapedFile(file=source.file, env_absent=True)
        return _Prepared(shaped=shaped, leaves=[], marks=Marks(), warnings=sliced.warnings)
    check = check_schema(
        sliced.tree,
        source.schema,
        file=source.file,
        strict=rules.strict_validation,
        secrets=bool(rules.secrets.manager),
    )
    leaves = flatten(sliced.tree, file=source.file)
    return _Prepared(
        shaped=ShapedFile(file=source.file, keys=len(leaves), validation=check.validation),
        leaves=leaves,
        marks=check.marks,
        warnings=sliced.warnings + check.warnings,
    )


def _shaped_key(leaf: Leaf, marks: Marks, rules: ShapingRules) -> ShapedKey:
    marker = marker_of(leaf)
    mark = marks.secret_of(leaf.path) if marker is None and leaf.path else marker
    return ShapedKey(
        file=leaf.file,
        line=leaf.line,
        column=leaf.column,
        secret=None if mark is None else secret_of(leaf, mark, rules.secrets),
        logged=bool(leaf.path) and marks.is_logged(leaf.path),
    )
