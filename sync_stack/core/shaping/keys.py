"""From flat keys to the keys that are written: variables_map, key_format, limits.

(reference: sync-stack 4.5)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from sync_stack.core.bundle.rules import KeyFormat, Variable, VariableForm
from sync_stack.core.shaping.leaves import (
    MAX_KEYS,
    Leaf,
    conflict,
    refusal,
    too_many_keys,
)

MAX_KEY_LENGTH: Final = 512
MAX_VALUE_LENGTH: Final = 256 * 1024
_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_UPWARDS: Final = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")
_VARIABLES: Final = "variables_map"

Keyed = list[tuple[str, Leaf]]


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


def formatted(keyed: Keyed, key_format: KeyFormat) -> Keyed:
    if key_format is KeyFormat.DOT:
        return keyed
    return [(key.replace(".", "_"), leaf) for key, leaf in keyed]


def checked(found: Mapping[str, Leaf]) -> dict[str, Leaf]:
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
