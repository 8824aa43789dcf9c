"""Constraints and request schemas (reference: control-plane 18.2, steps 2 and 5)."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from mocks.engine.validation import MAX_ERRORS, PatternInvalid, matcher
from mocks.model.calls import CallOutcome
from surfaces.operation_rules import ParameterConstraint
from tests.support.mocks import mock_of


def constrained(rules: str, **spec):
    more = "".join(f", {key}: {value}" for key, value in spec.items())
    return mock_of(
        f"path: '/pay/{{id}}', method: POST, parameterConstraints: [{rules}]{more}",
        "a: {response: {body: ok}}",
    )


@pytest.mark.parametrize(
    ("rule", "target", "headers", "body", "code"),
    [
        ("{name: q, required: true}", "/pay/1?q=a", {}, b"", None),
        ("{name: q, required: true}", "/pay/1?q=", {}, b"", None),
        ("{name: q, required: true}", "/pay/1", {}, b"", "required"),
        ("{name: q, required: true}", "/pay/1?Q=a", {}, b"", "required"),
        ("{name: q, required: false}", "/pay/1", {}, b"", None),
        ("{name: q, pattern: '^[a-z]+$'}", "/pay/1", {}, b"", None),
        ("{name: q, pattern: '^[a-z]+$'}", "/pay/1?q=abc", {}, b"", None),
        ("{name: q, pattern: '^[a-z]+$'}", "/pay/1?q=A", {}, b"", "invalid_value"),
        ("{name: q, pattern: b}", "/pay/1?q=abc", {}, b"", None),
        ("{name: q, pattern: 'ä.$'}", "/pay/1?q=%C3%A4%C3%B6", {}, b"", None),
        ("{name: X-T, source: header, required: true}", "/pay/1", {"x-t": "1"}, b"", None),
        ("{name: x-t, source: header, required: true}", "/pay/1", {"X-T": "1"}, b"", None),
        ("{name: X-T, source: header, required: true}", "/pay/1?X-T=1", {}, b"", "required"),
        ("{name: id, source: path, pattern: '^[0-9]$'}", "/pay/1", {}, b"", None),
        ("{name: id, source: path, pattern: '^[0-9]$'}", "/pay/12", {}, b"", "invalid_value"),
        ("{name: other, source: path, required: true}", "/pay/1", {}, b"", "required"),
        ("{name: a.b, source: body, required: true}", "/pay/1", {}, b'{"a":{"b":1}}', None),
        ("{name: 'a[0]', source: body, pattern: '^1$'}", "/pay/1", {}, b'{"a":[1]}', None),
        ("{name: a, source: body, pattern: '^true$'}", "/pay/1", {}, b'{"a":true}', None),
        ("{name: a.b, source: body, required: true}", "/pay/1", {}, b'{"a":1}', "required"),
        ("{name: a.b, source: body, required: true}", "/pay/1", {}, b"no json", "required"),
        ("{name: a, source: body, required: true}", "/pay/1", {}, b"", "required"),
        ("{name: 'a b', source: body, required: true}", "/pay/1", {}, b'{"a b":1}', "required"),
    ],
)
async def test_a_constraint_asks_for_a_value_and_its_form(rule, target, headers, body, code):
    answer = await constrained(rule).call(target, headers=headers, body=body)
    if code is None:
        assert answer.body == b"ok"
        return
    assert (answer.status, answer.error_code) == (400, "mock_constraint_failed")
    assert answer.outcome is CallOutcome.REJECTED
    assert [each["code"] for each in answer.errors] == [code]


async def test_a_form_body_is_a_map_of_its_first_values():
    mocks = constrained("{name: a, source: body, pattern: '^x y$'}")
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert (await mocks.call("/pay/1", headers=headers, body=b"a=x+y&a=z")).body == b"ok"
    assert (await mocks.call("/pay/1", headers=headers, body=b"a=z")).status == 400


FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b'{"id": {"n": 7}}', b"json 7"),
        (b' \n{"id": {"n": 7}, "x": "a=b&c"}', b"json 7"),
        (b"id=7", b"form 7"),
        (b'{"id": {"n": 7}', b"other "),
        (b"{id=7}", b"other "),
        (b"7", b"other "),
        (b"[7]", b"other "),
    ],
)
async def test_json_that_curl_calls_a_form_is_json_and_a_form_stays_one(body, answer):
    mocks = mock_of(
        "method: POST, path: /pay",
        "json: {when: [{from: body, param: id.n, value: '7'}],"
        " response: {body: 'json {{request.body.id.n}}'}}, "
        "form: {when: [{from: body, param: id, value: '7'}],"
        " response: {body: 'form {{request.body.id}}'}}, "
        "other: {response: {body: 'other {{request.body.id}}'}}",
    )
    assert (await mocks.call("/pay", headers=FORM, body=body)).body == answer


async def test_json_that_curl_calls_a_form_has_the_types_of_json():
    schema = "{body: {type: object, properties: {n: {type: integer}}}}"
    mocks = mock_of("method: POST, path: /pay", f"a: {{requestSchema: {schema}}}")
    assert (await mocks.call("/pay", headers=FORM, body=b'{"n": 7}')).status == 200
    assert (await mocks.call("/pay", headers=FORM, body=b'{"n": "7"}')).status == 400


async def test_all_failed_constraints_are_listed_in_their_order():
    mocks = constrained(
        "{name: q, required: true}, {name: X-T, source: header, required: true},"
        " {name: a.b, source: body, pattern: '^y$'}"
    )
    answer = await mocks.call("/pay/1", body=b'{"a": {"b": "secret value"}}')
    assert [(each["pointer"], each["code"]) for each in answer.errors] == [
        ("q", "required"), ("X-T", "required"), ("/a/b", "invalid_value"),
    ]  # fmt: skip
    assert "secret value" not in json.dumps([answer.detail, *answer.errors])


async def test_constraints_come_before_everything_else():
    mocks = constrained(
        "{name: q, required: true}", state="{transitions: [{set: {a: b}}]}", delayMillis=50
    )
    answer = await mocks.call("/pay/1")
    assert (answer.error_code, answer.delay_ms) == ("mock_constraint_failed", 0)
    assert not mocks.state.stored
    assert mocks.state.reads == 0


async def test_a_forwarded_value_is_a_header_of_the_response():
    mocks = mock_of(
        """path: '/pay/{id}', parameterConstraints: [
          {name: X-Tenant, source: header, forward: true}, {name: q, forward: true},
          {name: id, source: path, forward: true}, {name: a.b, source: body, forward: true},
          {name: kept, forward: false}, {name: absent, forward: true},
          {name: 'bad name', forward: true}, {name: Content-Length, forward: true}]""",
        "a: {response: {headers: {x-tenant: own, X-Other: own}, body: ok}}",
    )
    answer = await mocks.call(
        "/pay/7?q=1%0d%0aX-Evil:%202&kept=k&bad+name=1&Content-Length=5",
        headers={"x-tenant": "acme"},
        body=b'{"a": {"b": 3}}',
    )
    assert list(answer.headers) == [
        ("X-Other", "own"), ("X-Tenant", "acme"), ("q", "1X-Evil: 2"), ("id", "7"), ("a.b", "3"),
    ]  # fmt: skip


async def test_patterns_see_the_first_8_kib():
    mocks = constrained("{name: a, source: body, pattern: '^x+$'}")
    assert (await mocks.call("/pay/1", body=b'{"a": "%s!"}' % (b"x" * 8192))).status == 200
    assert (await mocks.call("/pay/1", body=b'{"a": "%s!"}' % (b"x" * 8191))).status == 400


async def test_a_hostile_pattern_takes_linear_time():
    mocks = constrained("{name: a, source: body, pattern: '^(([a-z])+.)+[A-Z]([a-z])+$'}")
    started = time.process_time()
    answer = await mocks.call("/pay/1", body=b'{"a": "%s"}' % (b"a" * 1_000_000))
    assert answer.status == 400
    assert time.process_time() - started < 1


SCHEMA = """{headers: {type: object, required: [X-Id], properties: {X-Id: {type: integer},
  x-mode: {enum: [a, b]}}}, body: {type: object, required: [amount, card], properties: {
  amount: {type: number, minimum: 1, maximum: 100}, card: {type: object, required: [type],
  properties: {type: {type: string, enum: [visa]}}}, tags: {type: array, items: {type: string,
  minLength: 2, maxLength: 3, pattern: '^[a-z]+$'}}, kind: {const: pay}, 'a/b': {type: boolean},
  n: {type: integer}, nothing: {type: 'null'}}}}"""
GOOD = {"amount": 10, "card": {"type": "visa"}}


def with_schema():
    return mock_of(
        "path: /pay, method: POST", f"a: {{requestSchema: {SCHEMA}, response: {{body: ok}}}}"
    )


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({}, []),
        ({"tags": ["ab", "abc"], "kind": "pay", "a/b": True, "n": 3, "nothing": None}, []),
        ({"n": 3.0, "more": "is ignored"}, []),
        ({"amount": None}, [("/amount", "wrong_type")]),
        ({"amount": "10"}, [("/amount", "wrong_type")]),
        ({"amount": True}, [("/amount", "wrong_type")]),
        ({"amount": 0.5}, [("/amount", "invalid_value")]),
        ({"amount": 101}, [("/amount", "invalid_value")]),
        ({"card": {}}, [("/card/type", "required")]),
        ({"card": []}, [("/card", "wrong_type")]),
        ({"card": {"type": "amex"}}, [("/card/type", "invalid_value")]),
        ({"tags": ["a", "abcd", "AB", 1]}, [
            ("/tags/0", "invalid_value"), ("/tags/1", "invalid_value"),
            ("/tags/2", "invalid_value"), ("/tags/3", "wrong_type")]),
        ({"kind": "other"}, [("/kind", "invalid_value")]),
        ({"a/b": "true"}, [("/a~1b", "wrong_type")]),
        ({"n": 1.5}, [("/n", "wrong_type")]),
        ({"nothing": 0}, [("/nothing", "wrong_type")]),
    ],
)  # fmt: skip
async def test_the_body_is_checked_against_the_schema_of_the_chosen_example(changes, errors):
    body = json.dumps(GOOD | changes).encode()
    answer = await with_schema().call("/pay", headers={"x-id": "1"}, body=body)
    assert [(each["pointer"], each["code"]) for each in answer.errors] == errors
    assert answer.error_code == ("mock_request_invalid" if errors else "")
    assert answer.example == "a"


@pytest.mark.parametrize(
    ("headers", "errors"),
    [
        ({"X-ID": "5", "X-Mode": "b"}, []),
        ({}, [("x-id", "required")]),
        ({"x-id": "five"}, [("x-id", "wrong_type")]),
        ({"x-id": "5", "x-mode": "c"}, [("x-mode", "invalid_value")]),
    ],
)
async def test_headers_are_checked_ignoring_the_case_of_their_names(headers, errors):
    answer = await with_schema().call("/pay", headers=headers, body=json.dumps(GOOD).encode())
    assert [(each["pointer"], each["code"]) for each in answer.errors] == errors


async def test_a_missing_body_is_required_and_another_one_is_of_the_wrong_type():
    mocks = with_schema()
    for body, code in ((b"", "required"), (b"text", "wrong_type"), (b"[]", "wrong_type")):
        answer = await mocks.call("/pay", headers={"x-id": "1"}, body=body)
        assert [(each["pointer"], each["code"]) for each in answer.errors] == [("", code)]


async def test_texts_of_a_form_count_as_what_the_schema_asks_for():
    schema = "{body: {type: object, properties: {n: {type: integer, minimum: 5}}}}"
    mocks = mock_of("method: POST, path: /pay", f"a: {{requestSchema: {schema}}}")
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert (await mocks.call("/pay", headers=headers, body=b"n=7")).status == 200
    assert (await mocks.call("/pay", headers=headers, body=b"n=4")).status == 400
    assert (await mocks.call("/pay", headers=headers, body=b"n=x")).status == 400


async def test_a_literal_request_describes_and_is_not_checked():
    mocks = mock_of(
        "method: POST, path: /pay",
        "a: {request: {headers: {x-a: b}, body: {n: 1}}, response: {body: ok}}",
    )
    assert (await mocks.call("/pay", body=b"anything")).body == b"ok"


async def test_errors_and_the_values_that_are_checked_are_bounded():
    schema = "{body: {type: array, items: {type: string}}}"
    mocks = mock_of("method: POST, path: /pay", f"a: {{requestSchema: {schema}}}")
    answer = await mocks.call("/pay", body=b"[" + b"0," * 10_000 + b"0]")
    assert len(answer.errors) == MAX_ERRORS
    answer = await mocks.call("/pay", body=b"[" + b'"",' * 300_000 + b'""]')
    assert [each["detail"] for each in answer.errors] == ["the body has more than 100,000 values"]


def test_a_pattern_that_is_none_is_a_problem_of_the_operation():
    with pytest.raises(PatternInvalid, match="regular expression"):
        matcher("(")
    rule = ParameterConstraint(name="q", source="query", required=False, forward=False, pattern="(")
    mocks = constrained("{name: q}")
    operation = mocks.operation
    mock = replace(operation.operation.mock, constraints=(rule,))
    operation.operation = replace(operation.operation, mock=mock)
    assert operation.tables.broken is not None
    assert operation.tables.broken.error_code == "mock_metadata_invalid"
    assert operation.static is None
