"""The conditions of examples: `when` (reference: control-plane 6.3, 18.3)."""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, ClassVar, Final

from readers.tree import Kind, Tree
from surfaces.body_queries import SYNTAXES, QueryInvalid, compile_query
from surfaces.forms import ANYTHING, PATTERN, FileNotes, Form, unreadable_at, word
from surfaces.model import CONDITION_SOURCES, OPERATORS, Condition
from surfaces.records import Also, FileRecord, Named, read_record
from surfaces.template_paths import parse_path
from surfaces.trees import is_small, items, member, text_of

MAX_CONDITIONS: Final = 50  # of an example
MAX_LISTED: Final = 1_000  # values of `in`
NUMBER: Final = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


def _single(tree: Tree, _key: str, _notes: FileNotes) -> str:
    if tree.kind in (Kind.MAP, Kind.LIST):
        raise unreadable_at(tree, "expected a text, number or boolean; several are in: [a, b]")
    return "null" if tree.kind is Kind.NULL else tree.text


def _flag(tree: Tree, _key: str, _notes: FileNotes) -> str:
    if tree.text not in ("true", "false"):
        raise unreadable_at(tree, "write true or false")
    return tree.text


def _list(tree: Tree, key: str, notes: FileNotes) -> str:
    if tree.kind is not Kind.LIST or not 0 < len(tree.items) <= MAX_LISTED:
        raise unreadable_at(tree, f"in lists values, at most {MAX_LISTED}")
    if not is_small(tree, 2 * MAX_LISTED, 100_000):
        raise unreadable_at(tree, "the values of in are too large")
    return json.dumps([_single(each, key, notes) for each in tree.items], ensure_ascii=False)


def _number(tree: Tree, _key: str, _notes: FileNotes) -> str:
    text = json.dumps(tree.plain()) if tree.kind is Kind.NUMBER else tree.text
    if NUMBER.fullmatch(text) is None or not math.isfinite(float(text)):
        raise unreadable_at(tree, "expected a number")
    return text


_SINGLE: Final = Form(_single, {"type": ["string", "number", "boolean", "null"]}, "null")
_MATCHES: Final = Form(PATTERN.read, PATTERN.schema, "null")
_ABSENT: Final = Form(_flag, {"type": "boolean"}, "null")
_IN: Final = Form(_list, {"type": "array", "items": _SINGLE.schema, "minItems": 1}, "null")
_BOUND: Final = Form(_number, {"type": ["number", "string"]}, "null")


class Opposite(FileRecord, frozen=True, kw_only=True):
    """What a value must not be: one of these."""

    label: ClassVar = "not"
    # what the same is called elsewhere
    elsewhere: ClassVar = {
        "equalto": "value", "eq": "value", "is": "value", "regex": "matches", "pattern": "matches",
        "doesnotmatch": "not: {matches: …}", "doesnotcontain": "not: {contains: …}",
        "ne": "not: {value: …}", "present": "absent: false", "exists": "absent: false",
        "greaterthan": "gt", "lessthan": "lt", "matchesjsonpath": "jsonPath",
        "matchesxpath": "xpath", "or": "anyOf", "any": "anyOf", "oneof": "in", "target": "from",
        "source": "from", "modifier": "param", "name": "param",
    }  # fmt: skip
    equals: Annotated[str | None, Named("value"), _SINGLE, Also("equals"), "the text"] = None
    matches: Annotated[str | None, _MATCHES, "a regular expression (RE2), unanchored"] = None
    contains: Annotated[str | None, _SINGLE, "a part of the text"] = None
    absent: Annotated[str | None, _ABSENT, "whether it is missing"] = None
    in_: Annotated[str | None, Named("in"), _IN, "one of these texts"] = None
    gt: Annotated[str | None, _BOUND, "greater than"] = None
    gte: Annotated[str | None, _BOUND, "at least"] = None
    lt: Annotated[str | None, _BOUND, "less than"] = None
    lte: Annotated[str | None, _BOUND, "at most"] = None

    @property
    def operators(self) -> list[tuple[str, str]]:
        """Return the operators that are given, with their values."""
        names = [(each, f"{each}_" if each == "in" else each) for each in OPERATORS]
        found = [(name, getattr(self, attribute)) for name, attribute in names]
        return [(name, value) for name, value in found if value is not None]


def _not(tree: Tree, _key: str, notes: FileNotes) -> Opposite:
    if tree.kind is not Kind.MAP:
        raise unreadable_at(tree, f"write not: {{value: {tree.text[:40]}}}")
    return read_record(Opposite, tree, notes)


class ConditionKeys(Opposite, frozen=True, kw_only=True):
    """What must hold: what stands at `param` of `from` suits one operator; or `anyOf`."""

    label: ClassVar = "a condition"
    form: ClassVar = "{from: query, param: q, value: x}"
    source: Annotated[str, Named("from"), word("a source", *CONDITION_SOURCES)] = ""
    param: Annotated[str, "the name, or of body the path, as card.type"] = ""
    json_path: Annotated[str, "of body, instead of param (RFC 9535)"] = ""
    xpath: Annotated[str, "of body, instead of param (XPath 1)"] = ""
    opposite: Annotated[
        Opposite | None, Named("not"), Form(_not, {"$ref": Opposite}, "null"), "the opposite of one"
    ] = None
    any_of: Annotated[Tree | None, ANYTHING, "alternatives: conditions, or lists of them"] = None


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
        elif alternatives is not None or len(entry.pairs) > 1:
            raise unreadable_at(entry, "anyOf stands alone in its entry, and once in a list")
        else:
            alternatives = group
            found += _alternatives(entry, group)
        if len(found) > MAX_CONDITIONS:
            raise unreadable_at(example, f"more than {MAX_CONDITIONS} conditions")
    return tuple(found)


def _alternatives(entry: Tree, group: Tree) -> list[Condition]:
    """Return the conditions of `anyOf`, one more than there may be where there are too many."""
    if not items(group):
        raise unreadable_at(entry, "anyOf lists conditions, or lists of them")
    numbered: list[tuple[int, Tree]] = []
    for number, listed in enumerate(items(group)[: MAX_CONDITIONS + 1], start=1):
        if not items(listed):
            raise unreadable_at(listed, "an alternative of anyOf needs a condition")
        numbered += [(number, each) for each in items(listed)[: MAX_CONDITIONS + 1]]
    return [_condition(each, number) for number, each in numbered[: MAX_CONDITIONS + 1]]


def _condition(tree: Tree, alternative: int) -> Condition:
    given = read_record(ConditionKeys, tree)
    if not given.source:
        known = ", ".join(CONDITION_SOURCES)
        raise unreadable_at(tree, f'"" is not a source; use one of {known}')
    param, syntax = _param(tree, given)
    found = given.operators
    negated = given.opposite is not None
    if given.opposite is not None:
        found = [*found, ("not", "")] if found else given.opposite.operators
    if len(found) != 1:
        names = ", ".join(name for name, _ in found)
        raise unreadable_at(
            tree,
            f"a condition has one of {names}; write a condition for each"
            if found
            else "a condition requires value or another operator: " + ", ".join(OPERATORS),
        )
    return Condition(
        source=given.source, param=param, value=found[0][1], operator=found[0][0], negated=negated,
        syntax=syntax, alternative=alternative,
    )  # fmt: skip


def _param(tree: Tree, given: ConditionKeys) -> tuple[str, str]:
    """Return what is looked at, and the syntax of a query."""
    texts = {"param": given.param, "jsonPath": given.json_path, "xpath": given.xpath}
    named = [name for name, text in texts.items() if text]
    if len(named) != 1:
        reason = f"only one of {', '.join(named)}" if named else "param"
        raise unreadable_at(tree, f"a condition requires {reason}")
    at = member(tree, named[0]) or tree
    param, syntax = text_of(at), named[0] if named[0] in SYNTAXES else ""
    if given.source == "body" and not syntax and param.startswith(("$.", "$[")):
        syntax = "jsonPath"
    if syntax:
        if given.source != "body":
            raise unreadable_at(at, f"{syntax} looks into a body: write from: body")
        try:
            compile_query(syntax, param)
        except QueryInvalid as error:
            raise unreadable_at(at, f"the {syntax} {param[:80]}: {error}") from None
    elif given.source == "body" and parse_path(param) is None:
        raise unreadable_at(at, f'"{param[:80]}" is not a path, such as card.type or items[0].id')
    return param, syntax
