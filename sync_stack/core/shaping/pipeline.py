"""The steps from files to settings: root key, environment, schema, keys, secrets, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from readers.diagnostics import Diagnostic
from sync_stack.core.bundle.rules import EnvSlice
from sync_stack.core.shaping.environment_slice import Sliced, slice_environment, take_root
from sync_stack.core.shaping.keys import apply_variables, checked, formatted, unique
from sync_stack.core.shaping.leaves import Leaf, flatten
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

_UNMARKED: Final = Marks()


def shape(files: Sequence[SourceFile], rules: ShapingRules) -> Shaped:
    """Return the settings of one target from all of its files. Raise ShapingError."""
    prepared = [_prepared(file, rules) for file in files]
    present = [file for file in prepared if not file.shaped.env_absent]
    leaves: dict[str, Leaf] = {}
    if present or not prepared:
        found = unique((leaf.key, leaf) for file in present for leaf in file.leaves)
        renamed = apply_variables(found, rules.variables_map)
        leaves = checked(unique(formatted(renamed, rules.key_format)))
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


def _prepared(source: SourceFile, rules: ShapingRules) -> _Prepared:
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
