"""The conditions of examples: `when` (reference: control-plane 6.3, 18.3)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from readers.diagnostics import nearest_advice
from readers.tree import Kind, Tree
from surfaces.body_queries import SYNTAXES, QueryInvalid, compile_query
from surfaces.mock_files.value_nodes import read_pattern, unreadable_at
from surfaces.model import CONDITION_SOURCES, OPERATORS, Condition
from surfaces.template_paths import parse_path
from surfaces.trees import is_small, items, member, members, text_of

MAX_CONDITIONS: Final = 50  # of an example
MAX_LISTED: Final = 1_000  # values of `in`
_ALIASES: Final = {"value": "equals"}
_KEYS: Final = ("from", "param", *SYNTAXES, "value", *OPERATORS, "not", "anyOf")
NUMBER: Final = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
# what the same is called elsewhere
_ELSEWHERE: Final[Mapping[str, str]] = {
    "equalto": "value", "eq": "value", "is": "value", "regex": "matches", "pattern": "matches",
    "doesnotmatch": "not: {matches: …}", "doesnotcontain": "not: {contains: …}",
    "ne": "not: {value: …}", "present": "absent: false", "exists": "absent: false",
    "greaterthan": "gt", "lessthan": "lt", "matchesjsonpath": "jsonPath", "matchesxpath": "xpath",
    "or": "anyOf", "any": "anyOf", "oneof": "in", "target": "from", "source": "from",
    "modifier": "param", "name": "param",
}  # fmt: skip


def read_conditions(example: Tree) -> tuple[Condition, ...]:
    """Return the conditions of an example; raise Unreadable at the first that is none.

    An entry `anyOf: [a, [b, c]]` makes those of `a`, and of `b` and `c`, alternatives.
    """
    found: list[Condition] = []
    alternatives: Tree | None = None
    for entry in items(member(example, "when") or member(example, "dispatch")):
        group = member(entry, "anyOf")
        if group is None:
            found.append(_condition(entry, 0))
            continue
        if alternatives is not None or len(entry.pairs) > 1:
            raise unreadable_at(entry, "anyOf stands alone in its entry, and once in a list")
        alternatives = group
        if not items(group):
            raise unreadable_at(entry, "anyOf lists conditions, or lists of them")
        for number, listed in enumerate(items(group), start=1):
            if not items(listed):
                raise unreadable_at(listed, "an alternative of anyOf needs a condition")
            found += [_condition(each, number) for each in items(listed)]
    if len(found) > MAX_CONDITIONS:
        raise unreadable_at(example, f"more than {MAX_CONDITIONS} conditions")
    return tuple(found)


def _condition(tree: Tree, alternative: int) -> Condition:
    if tree.kind is not Kind.MAP:
        raise unreadable_at(tree, "a condition is a mapping: {from: query, param: q, value: x}")
    source = text_of(member(tree, "from"))
    if member(tree, "from") is None or source not in CONDITION_SOURCES:
        _refuse_unknown_keys(tree)
        known = ", ".join(CONDITION_SOURCES)
        raise unreadable_at(tree, f'"{source[:40]}" is not a source; use one of {known}')
    param, syntax = _param(tree, source)
    operator, value, negated = _operator(tree)
    return Condition(
        source=source, param=param, value=value, operator=operator, negated=negated,
        syntax=syntax, alternative=alternative,
    )  # fmt: skip


def _param(tree: Tree, source: str) -> tuple[str, str]:
    """Return what is looked at, and the syntax of a query."""
    given = [name for name in ("param", *SYNTAXES) if text_of(member(tree, name))]
    if len(given) != 1:
        _refuse_unknown_keys(tree)
        reason = f"only one of {', '.join(given)}" if given else "param"
        raise unreadable_at(tree, f"a condition requires {reason}")
    at = member(tree, given[0]) or tree
    param, syntax = at.text, given[0] if given[0] in SYNTAXES else ""
    if source == "body" and not syntax and param.startswith(("$.", "$[")):
        syntax = "jsonPath"
    if syntax:
        if source != "body":
            raise unreadable_at(at, f"{syntax} looks into a body: write from: body")
        try:
            compile_query(syntax, param)
        except QueryInvalid as error:
            raise unreadable_at(at, f"the {syntax} {param[:80]}: {error}") from None
    elif source == "body" and parse_path(param) is None:
        raise unreadable_at(at, f'"{param[:80]}" is not a path, such as card.type or items[0].id')
    return param, syntax


def _operator(tree: Tree) -> tuple[str, str, bool]:
    """Return operator, value, and whether the condition is the opposite."""
    found = list(_operators(tree))
    negated = any(name == "not" for name, _ in found)
    if negated and len(found) == 1:
        inner = found[0][1]
        if inner.kind is not Kind.MAP:
            raise unreadable_at(inner, f"write not: {{value: {inner.text[:40]}}}")
        found = list(_operators(inner))
        for key, each in members(inner):
            if _name_of(key) not in OPERATORS:
                raise unreadable_at(each, _unknown(key, "not"))
    _refuse_unknown_keys(tree)
    if len(found) != 1:
        names = ", ".join(name for name, _ in found)
        raise unreadable_at(
            tree,
            f"a condition has one of {names}; write a condition for each"
            if found
            else "a condition requires value or another operator: " + ", ".join(OPERATORS),
        )
    name, at = found[0]
    return name, _VALUES.get(name, _read_single)(at), negated


def _operators(tree: Tree) -> Iterator[tuple[str, Tree]]:
    for key, each in members(tree):
        name = _name_of(key)
        if name in (*OPERATORS, "not"):
            yield name, each


def _name_of(key: str) -> str:
    return _ALIASES.get(key.lower(), key.lower())


def _refuse_unknown_keys(tree: Tree) -> None:
    known = {key.lower() for key in _KEYS}
    for key, each in members(tree):
        if key.lower() not in known:
            raise unreadable_at(each, _unknown(key, "a condition"))


def _unknown(key: str, where: str) -> str:
    elsewhere = _ELSEWHERE.get(key.lower())
    advice = f"write {elsewhere}" if elsewhere else nearest_advice(key, _KEYS)
    return f'{where} has no key "{key[:40]}"; {advice}'


def _read_single(tree: Tree) -> str:
    if tree.kind in (Kind.MAP, Kind.LIST):
        raise unreadable_at(tree, "expected a text, number or boolean; several are in: [a, b]")
    return "null" if tree.kind is Kind.NULL else tree.text


def _read_pattern(tree: Tree) -> str:
    return read_pattern(tree) or _refuse(tree, "a pattern is a text")


def _read_flag(tree: Tree) -> str:
    return tree.text if tree.text in ("true", "false") else _refuse(tree, "write true or false")


def _read_list(tree: Tree) -> str:
    if tree.kind is not Kind.LIST or not 0 < len(tree.items) <= MAX_LISTED:
        raise unreadable_at(tree, f"in lists values, at most {MAX_LISTED}")
    if not is_small(tree, 2 * MAX_LISTED, 100_000):
        raise unreadable_at(tree, "the values of in are too large")
    return json.dumps([_read_single(each) for each in tree.items], ensure_ascii=False)


def _read_number(tree: Tree) -> str:
    text = json.dumps(tree.plain()) if tree.kind is Kind.NUMBER else tree.text
    if NUMBER.fullmatch(text) is None or not math.isfinite(float(text)):
        raise unreadable_at(tree, "expected a number")
    return text


def _refuse(tree: Tree, reason: str) -> str:
    raise unreadable_at(tree, reason)


_VALUES: Final[Mapping[str, Callable[[Tree], str]]] = {
    "matches": _read_pattern, "absent": _read_flag, "in": _read_list,
    "gt": _read_number, "gte": _read_number, "lt": _read_number, "lte": _read_number,
}  # fmt: skip
