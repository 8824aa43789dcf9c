"""Readers of the keywords that name mocks: `surface`, `reset_mocks`, `expect_calls`.

As those of `values`: they run in the evaluator's child process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

from apps.suites.domain import values
from apps.suites.domain.calls import CallExpectation, RecordedExpectation
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.values import Handle, NodeReference

WITH_MOCKS: Final = ("mock", "suite")  # kinds of nodes
MAX_CALLS: Final = 1_000  # what the journal of a mock keeps
MAX_EXPECTATIONS: Final = 100
_SURFACE: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_METHOD: Final = re.compile(r"^[A-Z]{1,20}\Z")
_BODY_PATH: Final = re.compile(r"^(?:[^\s.\[\]/]+|\[\d{1,9}\])(?:\.[^\s.\[\]/]+|\[\d{1,9}\])*\Z")
_TEXTS: Final = ("operation", "method", "path", "example")
_COUNTS: Final = ("count", "at_least", "at_most")
_KEYS: Final = ("mock", *_TEXTS, "headers", "body", "valid", *_COUNTS)


def surfaces(value: object, where: str) -> list[str]:
    """Return ids of surfaces, each once."""
    named = values.text_or_texts(value, where)
    if not named:
        values.invalid(where, "must name at least one surface")
    for name in named:
        if not _SURFACE.match(name):
            values.invalid(where, f'"{name}" is not an id of a surface')
    return list(dict.fromkeys(named))


def mock_references(value: object, where: str) -> list[NodeReference]:
    if not isinstance(value, list):
        values.wrong_type(where, "a list of mock or suite nodes", value)
    return [each for item in value for each in _mocks(item, where, "reset_mocks_invalid")]


def expected_calls(value: object, where: str) -> list[RecordedExpectation]:
    if not isinstance(value, list):
        values.wrong_type(where, "a list of dicts", value)
    if len(value) > MAX_EXPECTATIONS:
        values.invalid(where, f"more than {MAX_EXPECTATIONS} expectations")
    return [_expectation(item, f"{where}[{index}]") for index, item in enumerate(value)]


def _expectation(value: object, where: str) -> RecordedExpectation:
    given = values.only_keys(value, where, _KEYS)
    if "mock" not in given:
        raise TopologyProblem("missing_argument", f"{where}: mock is required")
    mocks = _mocks(given["mock"], f"{where}.mock", "expect_calls_invalid")
    like: dict[str, object] = {
        name: values.text(given[name], f"{where}.{name}", empty=False)
        for name in _TEXTS
        if name in given
    }
    _refuse_bad_request(given, where)
    if "valid" in given and values.flag(given["valid"], f"{where}.valid"):
        like["valid"] = True
    for name in ("headers", "body"):
        if name in given:
            like[name] = _texts_by_name(given[name], f"{where}.{name}")
    for path in cast("Mapping[str, str]", like.get("body", {})):
        if not _BODY_PATH.match(path):
            values.invalid(f"{where}.body", f'"{path}" is not a path such as items[0].price')
    return cast("RecordedExpectation", {"mocks": mocks, **_bounds(given, where), **like})


def _refuse_bad_request(given: Mapping[str, object], where: str) -> None:
    method, path = given.get("method"), given.get("path")
    if isinstance(method, str) and not _METHOD.match(method):
        values.invalid(f"{where}.method", f'"{method}" is not an HTTP method such as POST')
    if isinstance(path, str) and not path.startswith("/"):
        values.invalid(f"{where}.path", f'"{path}" must start with "/"')


def _texts_by_name(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        values.wrong_type(where, "a dict", value)
    return {
        values.text(name, f"{where}: a name", empty=False): values.scalar_text(
            item, f'{where}["{name}"]'
        )
        for name, item in value.items()
    }


def _bounds(given: Mapping[str, object], where: str) -> CallExpectation:
    """Return the least and the most calls; without any of the three, at least one."""
    numbers = {
        name: values.whole(given[name], f"{where}.{name}", low=0, high=MAX_CALLS)
        for name in _COUNTS
        if name in given
    }
    if "count" in numbers:
        if len(numbers) > 1:
            values.invalid(where, "count stands alone, without at_least and at_most")
        return {"atLeast": numbers["count"], "atMost": numbers["count"]}
    least = numbers.get("at_least", 0 if "at_most" in numbers else 1)
    if "at_most" not in numbers:
        return {"atLeast": least}
    if numbers["at_most"] < least:
        values.invalid(where, f"at_most {numbers['at_most']} is less than at_least {least}")
    return {"atLeast": least, "atMost": numbers["at_most"]}


def _mocks(value: object, where: str, code: str) -> list[NodeReference]:
    if isinstance(value, Handle) and value.kind not in WITH_MOCKS:
        raise TopologyProblem(
            code,
            f'{where}: "{value.label}" is a {value.kind}; only mocks and imported suites are '
            "called and have state to reset",
        )
    if not isinstance(value, Handle | str):
        values.wrong_type(where, "a mock or suite node", value)
    return values.references(value, where)
