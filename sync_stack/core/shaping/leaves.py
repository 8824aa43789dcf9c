"""A tree as flat keys with text and place, and the keys that are written.

(reference: sync-stack 4.5)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from readers.tree import Kind, Tree
from sync_stack.core.bundle.rules import KeyFormat, Variable, VariableForm
from sync_stack.core.file_errors import ShapingError

MAX_KEYS: Final = 50_000
MAX_KEY_LENGTH: Final = 512
MAX_VALUE_LENGTH: Final = 256 * 1024
_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_UPWARDS: Final = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")
_VARIABLES: Final = "variables_map"
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


Keyed = list[tuple[str, Leaf]]


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
    """Return flat keys and text in the tree's order; raise ShapingError.

    Its codes: `key_conflict`, `too_many_keys`.
    """
    found = unique((leaf.key, leaf) for leaf in flatten(tree))
    return {key: leaf.text for key, leaf in found.items()}


def unique(keyed: Iterable[tuple[str, Leaf]]) -> dict[str, Leaf]:
    """Return the leaves by key; raise ShapingError (`key_conflict`, `too_many_keys`)."""
    made: dict[str, Leaf] = {}
    for key, leaf in keyed:
        if key in made:
            raise conflict(key, made[key], leaf)
        made[key] = leaf
        if len(made) > MAX_KEYS:
            raise too_many_keys(leaf)
    return made


def apply_variables(found: Mapping[str, Leaf], variables: Mapping[str, Variable]) -> Keyed:
    """Apply all entries to the same keys; raise ShapingError(key_invalid) for an unknown `from`."""
    renamed: set[str] = set()
    made: Keyed = []
    for name, variable in variables.items():
        if variable.form is not VariableForm.LITERAL and variable.text in found:
            renamed.add(variable.text)
            made.append((name, found[variable.text]))
        elif variable.form is VariableForm.FROM:
            detail = f'"{name[:80]}" is renamed from "{variable.text[:80]}", which no file has'
            raise refusal("key_invalid", f"{_VARIABLES}: {detail}", _literal(name, ""))
        else:
            made.append((name, _literal(name, variable.text)))
    return [(key, leaf) for key, leaf in found.items() if key not in renamed] + made


def _literal(name: str, text: str) -> Leaf:
    return Leaf(key=name, text=text, path=(), file=_VARIABLES)


def format_keys(keyed: Keyed, key_format: KeyFormat) -> Keyed:
    if key_format is KeyFormat.DOT:
        return keyed
    return [(key.replace(".", "_"), leaf) for key, leaf in keyed]


def check_leaves(found: Mapping[str, Leaf]) -> dict[str, Leaf]:
    """Return the keys sorted bytewise; raise ShapingError(key_invalid) beyond the limits."""
    for key, leaf in found.items():
        problem = _problem(key, leaf.text)
        if problem:
            raise refusal("key_invalid", problem, leaf)
    return {key: found[key] for key in sorted(found)}  # by code point: the order of UTF-8 bytes


def _problem(key: str, text: str) -> str:
    if not key:
        return "a value without a key"
    if len(key) > MAX_KEY_LENGTH:
        return f'the key "{key[:80]}…" is longer than {MAX_KEY_LENGTH} characters'
    if _CONTROL.search(key):
        return f"the key {key[:80]!r} holds a control character"
    if _UPWARDS.search(key):
        return f'the key "{key[:80]}" holds `..` as a part of a path'
    return value_problem(key, text)


def value_problem(key: str, text: str) -> str:
    if len(text) > MAX_VALUE_LENGTH:
        return f'the value of "{key[:80]}" is longer than {MAX_VALUE_LENGTH} characters'
    return ""
