"""What is wrong in single values: keys of mappings, texts and numbers, schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import re2

from readers.diagnostics import nearest_advice, nearest_name
from readers.tree import Kind, Tree
from surfaces.contract_examples.pattern_samples import matcher
from surfaces.keywords.grammar import MemberType
from surfaces.trees import NOTHING

SHOWN: Final = 80  # characters of what is wrong
KEYS: Final[Mapping[str, tuple[re2.Pattern[str], str]]] = {
    "status": (re2.compile(r"[1-5](?:\d\d|XX|xx)|default"), "a status such as 200, 2XX or default"),
    "media": (re2.compile(r"\s*[^\s/;]+/[^\s/;]+\s*(?:;.*)?"), "a media type such as text/plain"),
    "path": (re2.compile(r"/.*"), 'a path, which begins with "/"'),
}
_OF_TYPE: Final = {
    "string": Kind.STRING,
    "number": Kind.NUMBER,
    "integer": Kind.NUMBER,
    "boolean": Kind.BOOL,
    "array": Kind.LIST,
    "object": Kind.MAP,
}
_BOUNDS: Final = (
    ("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)  # fmt: skip
_QUIET: Final = re2.Options()
_QUIET.log_errors = False
# What RE2 says of patterns that are wrong in every dialect.
_BROKEN: Final = ("missing", "unexpected", "no argument", "bad repetition", "trailing")
# Formats that somebody registered: what is near to one and none of them is a slip.
_FORMATS: Final = tuple(
    """int32 int64 int8 int16 uint8 uint16 uint32 uint64 float double decimal decimal128 date
    date-time date-time-local time time-local duration email idn-email hostname idn-hostname ipv4
    ipv6 uri url uri-reference uri-template iri iri-reference uuid json-pointer regex password byte
    binary relative-json-pointer base64url char html http-date""".split()  # noqa: SIM905
)
_LIKE: Final = 0.75
_LIKE_A_FORMAT: Final = 0.85
_MAX_COMPARED: Final = 200  # properties of a schema


def key_problem(key: str, keys: str) -> str:
    """Return why a key of a mapping is none of its sort, "" if it is one."""
    if not keys or KEYS[keys][0].fullmatch(key):
        return ""
    return f'"{key[:SHOWN]}" must be {KEYS[keys][1]}'


def scalar_problem(tree: Tree, wanted: MemberType) -> str:
    """Return why a text or number is not what is wanted, "" if it is."""
    text, problem = tree.text, ""
    if wanted.choices and text not in wanted.choices:
        problem = f'"{text[:SHOWN]}" is not known here; {nearest_advice(text, wanted.choices)}'
    elif wanted.name == "pattern":
        problem = _pattern_problem(text)
    elif wanted.name == "media":
        problem = key_problem(text, "media")
    elif wanted.name == "count" and not text.isdecimal():
        problem = "it must be a whole number"
    elif wanted.name == "format" and text not in _FORMATS:
        near = nearest_name(text, _FORMATS, least=_LIKE_A_FORMAT)
        advice = f'the format "{text[:SHOWN]}" is not known; did you mean {near}?'
        problem = advice if near else ""
    return problem


def _pattern_problem(text: str) -> str:
    """Return why a text is not a regular expression, "" for one, also for one that RE2 has not."""
    if matcher(text) is None:
        try:
            re2.compile(text, options=_QUIET)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace")
            if reason.startswith(_BROKEN):
                return f"it is not a regular expression: {reason[:SHOWN]}"
    return ""


def schema_problems(schema: Tree, *, is_part: bool) -> Iterator[tuple[str, Tree]]:
    """Yield what keywords of a schema say against each other, and where.

    A part of `allOf` may require properties of the other parts.
    """
    if not is_part:
        yield from _required_problems(schema)
    for least, most in _BOUNDS:
        low, high = (schema.pairs.get(each, NOTHING) for each in (least, most))
        is_numeric = {low.kind, high.kind} == {Kind.NUMBER}
        if is_numeric and float(low.plain()) > float(high.plain()):
            yield f"{least} is more than {most}", low
    yield from _value_problems(schema)


def _required_problems(schema: Tree) -> Iterator[tuple[str, Tree]]:
    properties = schema.pairs.get("properties", NOTHING).pairs
    for each in schema.pairs.get("required", NOTHING).items if properties else ():
        known = islice(properties, _MAX_COMPARED)
        if each.text not in properties and (near := nearest_name(each.text, known, least=_LIKE)):
            detail = f'it requires "{each.text[:SHOWN]}", which is no property of it'
            yield f"{detail}; did you mean {near}?", each


def _value_problems(schema: Tree) -> Iterator[tuple[str, Tree]]:
    """Yield a default or a value of the enum that is not of the type, or not in the enum."""
    pairs = schema.pairs
    named = pairs.get("type", NOTHING).text
    default, listed = pairs.get("default", NOTHING), pairs.get("enum", NOTHING).items
    for key, values in (("default", (default,)), ("enum", listed)) if named in _OF_TYPE else ():
        allowed = (_OF_TYPE[named], Kind.NULL)
        wrong = next((each for each in values if each.kind not in allowed), None)
        if wrong is not None:
            yield f"{key} has {_value_text(wrong)}, but type is {named}", wrong
    texts = [each.text for each in listed]
    if default.kind is Kind.STRING and texts and default.text not in texts:
        near = nearest_name(default.text, texts[:_MAX_COMPARED])
        advice = f"; did you mean {near}?" if near else ""
        yield f'default "{default.text[:SHOWN]}" is none of the enum{advice}', default


def _value_text(tree: Tree) -> str:
    if tree.kind in (Kind.MAP, Kind.LIST):
        return f"a {tree.kind}"
    return f'"{tree.text[:SHOWN]}"' if tree.kind is Kind.STRING else tree.text[:SHOWN]
