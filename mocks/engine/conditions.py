"""Conditions of examples, compiled (reference: control-plane 18.3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mocks.engine.validation import matcher, reader
from mocks.model.calls import MockRequest
from mocks.model.paths import text_of_value
from mocks.templates.coercions import FAILED, coerce
from surfaces.body_queries import compile_query
from surfaces.model import Condition

Texts = Sequence[str]  # what stands at a place of a request: none, one, or all that a query finds
Key = tuple[str, str, str]  # source, parameter, syntax
Test = Callable[[Texts], bool]
MAX_QUERIED: Final = 2**20  # bytes of a JSON body that queries look through


def key_of(condition: Condition) -> Key:
    """Return the place that a condition looks at; names of headers ignore case."""
    is_header = condition.source == "header"
    param = condition.param.lower() if is_header else condition.param
    return condition.source, param, condition.syntax


def compile_place(key: Key) -> Callable[[MockRequest, Mapping[str, str]], Texts]:
    """Return what reads a place of a request, or a field of the state."""
    source, param, syntax = key
    if source == "state":
        return lambda _request, state: (state[param],) if param in state else ()
    if not syntax:
        read = reader(source, param)
        return lambda request, _state: () if (text := read(request)) is None else (text,)
    find = compile_query(syntax, param)

    def find_texts(request: MockRequest, _state: Mapping[str, str]) -> Texts:
        if len(request.raw_body) > MAX_QUERIED:
            return ()
        found = find(request.raw_body if syntax == "xpath" else request.body)
        return [text_of_value(each) or "" for each in found]

    return find_texts


def compile_test(condition: Condition) -> Test:
    """Return what says whether the texts at a place suit a condition; of several, one must."""
    if condition.operator == "absent":
        wants_none = (condition.value == "true") != condition.negated
        return lambda texts: (not texts) == wants_none
    suits = _OPERATORS[condition.operator](condition.value)
    if condition.negated:
        return lambda texts: not any(map(suits, texts))
    return lambda texts: any(map(suits, texts))


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[str], Callable[[str], bool]]:
    def compile_comparison(value: str) -> Callable[[str], bool]:
        limit = coerce(value, "number")

        def suits(text: str) -> bool:
            number = coerce(text, "number")
            return number is not FAILED and compare(number, limit)

        return suits

    return compile_comparison


_OPERATORS: Final[Mapping[str, Callable[[str], Callable[[str], bool]]]] = {
    "equals": lambda value: lambda text: text == value,
    "matches": matcher,
    "contains": lambda value: lambda text: value in text,
    "in": lambda value: frozenset(json.loads(value)).__contains__,
    "gt": _comparison(lambda one, other: one > other),
    "gte": _comparison(lambda one, other: one >= other),
    "lt": _comparison(lambda one, other: one < other),
    "lte": _comparison(lambda one, other: one <= other),
}
