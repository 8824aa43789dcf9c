"""What a suite expects of the calls of its mocks, and how a miss is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.executions.domain.call_expectations import MockCall, case_of
from apps.mocks.api import CallOutcome, JournalEntry
from kernel import clock


def call(
    operation: str = "pay", *, mock: str = "psp", body: Any = "", text: str = "", **facts: Any
) -> MockCall:
    entry: dict[str, Any] = {
        "id": "1",
        "time": clock.now(),
        "method": "POST",
        "path": "/payments/7",
        "surface_id": "psp",
        "operation_id": operation,
        "matched_example": "paid",
        "outcome": CallOutcome.EXAMPLE,
        "status": 201,
        "duration_ms": 1.0,
        "request_headers": {"x-key": "a", "content-type": "application/json"},
        "request_body": text or (json.dumps(body) if body != "" else ""),
        **facts,
    }
    return MockCall(mock, JournalEntry(**entry))


def expected(**facts: Any) -> dict[str, Any]:
    return {"mocks": ["psp"], "atLeast": 1, **facts}


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"operation": "pay"},
        {"method": "POST"},
        {"path": "/payments/7"},
        {"path": "/payments/{id}"},
        {"path": "/{any}/7"},
        {"example": "paid"},
        {"headers": {"X-Key": "a"}},
        {"body": {"amount": "5", "to.name": "Ada", "items[1].gift": "true", "none": "null"}},
        {"atLeast": 1, "atMost": 1},
        {"atLeast": 0, "atMost": 1},
    ],
)
def test_a_call_that_is_as_expected_is_a_passed_test(facts):
    body = {"amount": 5, "to": {"name": "Ada"}, "items": [{}, {"gift": True}], "none": None}

    case = case_of(expected(**facts), [call(body=body), call(mock="other")])

    assert (case.outcome, case.message, case.classname) == ("passed", "", "expect_calls")


@pytest.mark.parametrize("path", ["/shop.v1.Orders/Get", "/Get", "/shop.v1.Orders/{any}"])
def test_a_call_of_grpc_may_be_named_by_its_path_or_its_operation(path: str):
    seen = call("Get", path="/shop.v1.Orders/Get")

    assert case_of(expected(path=path), [seen]).outcome == "passed"
    assert case_of(expected(path="/Put"), [seen]).outcome == "failure"


@pytest.mark.parametrize(
    ("facts", "difference"),
    [
        ({"operation": "refund"}, 'operation is "pay", not "refund"'),
        ({"method": "PUT"}, "method is POST, not PUT"),
        ({"path": "/payments"}, "path is /payments/7, not /payments"),
        ({"path": "/payments/{id}/x"}, "path is /payments/7, not /payments/{id}/x"),
        ({"path": "/payment./7"}, "path is /payments/7, not /payment./7"),
        ({"example": "declined"}, 'answered by example "paid", not by example "declined"'),
        ({"headers": {"X-Key": "b"}}, 'header X-Key is "a", not "b"'),
        ({"headers": {"X-Other": "b"}}, 'header X-Other is missing, not "b"'),
        ({"body": {"amount": "6"}}, 'body.amount is "5", not "6"'),
        ({"body": {"gone": "6"}}, 'body.gone is missing, not "6"'),
        ({"body": {"to[0]": "6"}}, 'body.to[0] is missing, not "6"'),
    ],
)
def test_a_miss_names_the_nearest_call_and_what_differs(facts, difference):
    far = call("other", method="GET", path="/", matched_example="", request_headers={})
    near = call(body={"amount": 5})

    case = case_of(expected(**facts), [near, far])

    assert case.outcome == "failure"
    assert case.message == (
        f"expected {case.name}, seen 0; "
        f'nearest call: POST /payments/7 → 201 (example "paid"): {difference}'
    )


def test_a_call_of_no_operation_is_said_so():
    stray = call("", path="/pya", matched_example="", outcome=CallOutcome.NO_MATCH, status=404)

    case = case_of(expected(operation="pay"), [stray])

    assert case.message.endswith("POST /pya → 404 (no match): it matches no operation")


def test_the_nearest_of_several_has_the_fewest_differences():
    facts = expected(operation="pay", body={"amount": "1", "currency": "EUR"})
    calls = [
        call(body={"amount": 2, "currency": "USD"}),
        call(body={"amount": 2, "currency": "EUR"}),
    ]

    message = case_of(facts, calls).message

    assert message.endswith('(example "paid"): body.amount is "2", not "1"')


@pytest.mark.parametrize(
    ("facts", "seen", "message"),
    [
        (
            {"operation": "pay", "atLeast": 2, "atMost": 2},
            1,
            "expected psp: pay exactly 2 times, seen 1; psp got no other call",
        ),
        ({}, 0, "expected psp: any call at least once, seen 0; psp got no call"),
        (
            {"atLeast": 0, "atMost": 0},
            1,
            "expected psp: any call exactly 0 times, seen 1; seen: POST /payments/7 → 201 "
            '(example "paid")',
        ),
    ],
)
def test_counts_are_told_in_words(facts, seen, message):
    assert case_of(expected(**facts), [call()] * seen).message == message


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"atLeast": 3}, "psp: any call at least 3 times"),
        ({"atLeast": 0, "atMost": 2}, "psp: any call at most 2 times"),
        ({"atLeast": 1, "atMost": 2}, "psp: any call 1 to 2 times"),
        (
            {
                "operation": "pay", "method": "POST", "path": "/p", "example": "ok",
                "headers": {"A": "b"}, "body": {"c.d": "e"},
            },
            'psp: pay POST /p with example "ok", header A "b", body.c.d "e" at least once',
        ),
    ],
)  # fmt: skip
def test_a_name_says_what_is_expected(facts, name):
    assert case_of(expected(**facts), [call()] * 5).name == name


def test_calls_of_all_mocks_of_an_imported_suite_count_together():
    facts = expected(mocks=["pay/a", "pay/b"], atLeast=2, atMost=2)

    assert case_of(facts, [call(mock="pay/a"), call(mock="pay/b"), call()]).outcome == "passed"


def test_many_calls_too_many_are_cut():
    message = case_of(expected(atLeast=0, atMost=0), [call()] * 100).message

    assert message.count("POST /payments/7") == 5
    assert message.endswith(", …")


@pytest.mark.parametrize("text", ["{", "[" * 10_000, "plain", "\u0000"])
def test_a_body_that_is_no_json_has_no_paths(text):
    message = case_of(expected(body={"a": "1"}), [call(text=text)]).message

    assert message.endswith('body.a is missing, not "1"')


def test_an_unmatched_call_says_how_it_ended():
    lost = call("", outcome=CallOutcome.NO_MATCH, status=404, matched_example="")

    message = case_of(expected(operation="pay"), [lost]).message

    assert "POST /payments/7 → 404 (no match)" in message


BROKEN = [
    {"pointer": "/body/id", "code": "required", "detail": "is required"},
    {"pointer": "/query/q", "code": "required", "detail": "is required"},
]


def test_calls_that_break_their_contract_fail_where_valid_ones_are_expected():
    calls = [call(contract_errors=BROKEN), call(), call("other", contract_errors=BROKEN)]

    assert case_of(expected(), calls).outcome == "passed"
    assert case_of(expected(valid=True), calls[1:2]).outcome == "passed"
    assert case_of(expected(valid=True, operation="pay"), calls[1:]).outcome == "passed"
    case = case_of(expected(valid=True, operation="pay"), calls)

    assert case.outcome == "failure"
    assert case.message == (
        "expected psp: pay with calls that fit the contract at least once, seen 2, "
        "1 of them against the contract; seen: POST /payments/7 → 201 "
        '(example "paid", /body/id is required and 1 more)'
    )
    gap = case_of(expected(valid=True), [call()], gap="some are lost")
    assert (gap.outcome, gap.message[-30:]) == ("error", "cannot be decided: some are lost"[-30:])


def test_callbacks_of_a_mock_count_where_they_are_asked_for_by_their_method():
    calls = [call(), call(method="CALLBACK", path="http://partner.test/hook")]

    assert case_of(expected(operation="pay", atMost=1), calls).outcome == "passed"
    assert case_of(expected(method="CALLBACK", atMost=1), calls).outcome == "passed"
    assert case_of(expected(method="CALLBACK"), calls[:1]).outcome == "failure"
