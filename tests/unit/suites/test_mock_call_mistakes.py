"""Misspellings and mistakes in the calls of a suite that are about mocks: each is refused.

The evaluator names the line and column of the call (test_evaluation).
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from apps.suites.domain.calls import read_call
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.values import Handle
from tests.unit.suites.test_keywords import MOCK, NODE, RULES


def _said(call: str, keywords: dict[str, Any]) -> str:
    with pytest.raises(TopologyProblem) as caught:
        read_call(call, [], keywords, RULES)
    return str(caught.value.message)


def name_of(given: object) -> str:
    """Return the name of a case: the address of a handle differs from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(given))


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"surfce": "psp"}, "did you mean surface?"),
        ({"surfaces": "psp"}, "did you mean surface?"),
        ({"nmae": "psp"}, "did you mean name?"),
        ({"aftr": NODE}, "did you mean after?"),
        ({"timout": "5s"}, "did you mean timeout?"),
        ({"defintion": "api/pay.yaml"}, "did you mean definition?"),
        ({"contract": "api/pay.yaml"}, 'unknown keyword "contract"'),
        ({"exprot": "x"}, 'unknown keyword "exprot"'),
        ({"expose": True}, 'unknown keyword "expose"'),
        ({"validate": "enforce"}, 'unknown keyword "validate"'),
        ({"port": 80}, 'unknown keyword "port"'),
        ({"image": "a:1"}, 'unknown keyword "image"'),
        ({"surface": 7}, "surface"),
        ({"surface": []}, "must name at least one surface"),
        ({"surface": "a b"}, '"a b" is not an id of a surface'),
        ({"surface": ["psp", ""]}, "surface"),
        ({"surface": ["psp", 7]}, "surface"),
        ({"surface": "psp/pay"}, "is not an id of a surface"),
        ({"definition": "api/pay.yml"}, "api/pay.yml"),
        ({"definition": 7}, "definition"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": "5 seconds"}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": "3h"}, "timeout"),
        ({"after": 7}, "after"),
        ({"name": 7}, "name"),
    ],
    ids=name_of,
)
def test_a_mistake_in_mock_serve(keywords, words):
    assert words in _said("mock.serve", keywords)


@pytest.mark.parametrize(
    ("expectation", "words"),
    [
        ({"mok": MOCK}, "did you mean mock?"),
        ({"mocks": [MOCK]}, "did you mean mock?"),
        ({}, "mock is required"),
        ({"operation": "pay"}, "mock is required"),
        ({"mock": 7}, "a mock or suite node"),
        ({"mock": [MOCK]}, "a mock or suite node"),
        ({"mock": NODE}, "only mocks and imported suites"),
        ({"mock": Handle(2, "task", "seed")}, "only mocks and imported suites"),
        ({"mock": MOCK, "opertion": "pay"}, "did you mean operation?"),
        ({"mock": MOCK, "operationId": "pay"}, "did you mean operation?"),
        ({"mock": MOCK, "operation": ""}, "operation"),
        ({"mock": MOCK, "operation": 7}, "operation"),
        ({"mock": MOCK, "metod": "GET"}, "did you mean method?"),
        ({"mock": MOCK, "method": "get"}, '"get" is not an HTTP method such as POST'),
        ({"mock": MOCK, "method": "GET /pay"}, "is not an HTTP method"),
        ({"mock": MOCK, "method": ["GET"]}, "method"),
        ({"mock": MOCK, "paht": "/pay"}, "did you mean path?"),
        ({"mock": MOCK, "path": "pay"}, '"pay" must start with "/"'),
        ({"mock": MOCK, "path": ""}, "path"),
        ({"mock": MOCK, "exmaple": "ok"}, "did you mean example?"),
        ({"mock": MOCK, "example": None}, "example"),
        ({"mock": MOCK, "header": {"a": "b"}}, "did you mean headers?"),
        ({"mock": MOCK, "headers": ["a"]}, "a dict"),
        ({"mock": MOCK, "headers": {"": "b"}}, "headers"),
        ({"mock": MOCK, "headers": {"a": ["b"]}}, "headers"),
        ({"mock": MOCK, "bdoy": {"a": 1}}, "did you mean body?"),
        ({"mock": MOCK, "body": '{"a": 1}'}, "a dict"),
        ({"mock": MOCK, "body": {"a..b": 1}}, "is not a path such as items[0].price"),
        ({"mock": MOCK, "body": {"/a/b": 1}}, "is not a path such as items[0].price"),
        ({"mock": MOCK, "body": {"items[x]": 1}}, "is not a path such as items[0].price"),
        ({"mock": MOCK, "body": {"a": {"b": 1}}}, "body"),
        ({"mock": MOCK, "vald": True}, "did you mean valid?"),
        ({"mock": MOCK, "valid": "True"}, "valid"),
        ({"mock": MOCK, "cuont": 1}, "did you mean count?"),
        ({"mock": MOCK, "count": "1"}, "count"),
        ({"mock": MOCK, "count": -1}, "count"),
        ({"mock": MOCK, "count": 1001}, "count"),
        ({"mock": MOCK, "count": 1, "at_most": 2}, "count stands alone"),
        ({"mock": MOCK, "atleast": 1}, "did you mean at_least?"),
        ({"mock": MOCK, "at_lest": 1}, "did you mean at_least?"),
        ({"mock": MOCK, "at_least": 3, "at_most": 2}, "at_most 2 is less than at_least 3"),
        ({"mock": MOCK, "at_most": 1.5}, "at_most"),
    ],
    ids=name_of,
)
def test_a_mistake_in_expect_calls(expectation, words):
    keywords = {"name": "t", "command": ["true"], "image": "a:1"}
    assert words in _said("test.run", {**keywords, "expect_calls": [expectation]})


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"expect_call": []}, "did you mean expect_calls?"),
        ({"expected_calls": []}, "did you mean expect_calls?"),
        ({"expect_calls": {"mock": MOCK}}, "a list of dicts"),
        ({"expect_calls": ["psp"]}, "a dict"),
        ({"expect_calls": [{"mock": MOCK}] * 101}, "more than 100 expectations"),
        ({"reset_mock": [MOCK]}, "did you mean reset_mocks?"),
        ({"reset_mocks": MOCK}, "a list of mock or suite nodes"),
        ({"reset_mocks": [NODE]}, "only mocks and imported suites"),
    ],
    ids=name_of,
)
def test_a_mistake_beside_them(keywords, words):
    assert words in _said("test.run", {"name": "t", "image": "a:1", **keywords})
