"""What a test asks of the calls that mocks got, and what is said where they did not come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from kernel.errors import InvalidInput
from mocks.inspection.verification import Verification, read_question, verify
from mocks.journal.entries import MAX_BODY_BYTES, NotedCall, entry_of
from mocks.model.calls import CallOutcome, JournalEntry

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JSON = (b"content-type", b"application/json")


def call(path: str = "/orders", body: Any = None, **facts: Any) -> JournalEntry:
    noted = NotedCall(
        "1", BEGIN.timestamp(), "POST", path, "shop", "createOrder", "made",
        CallOutcome.EXAMPLE, 201, 1.0, [JSON], b"" if body is None else json.dumps(body).encode(),
    )  # fmt: skip
    return entry_of(noted._replace(**facts), str)


def long_call(body: bytes) -> JournalEntry:
    return entry_of(NotedCall(
        "1", 0, "POST", "/orders", "shop", "createOrder", "made", CallOutcome.EXAMPLE, 201, 1.0,
        [JSON], body[:MAX_BODY_BYTES],
    ), str)  # fmt: skip


def ask(entries: Sequence[JournalEntry], *, gap: str = "", **body: Any) -> Verification:
    return verify(read_question({"suiteId": "shop", **body}), entries, gap=gap)


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"method": "post", "path": "/orders/7"},
        {"path": "orders/{id}"},
        {"path": "/{any}/{id}"},
        {"path": "/{a}{b}{c}/7"},
        {"operationId": "createOrder", "surfaceId": "shop", "example": "made"},
        {"outcome": "example", "valid": True, "tag": "t-1"},
        {"since": "2026-01-02T04:04:05+01:00"},
        {"path": "/orders/{id}", "when": [{"from": "path", "param": "id", "value": 7}]},
        {"when": [{"from": "query", "param": "q", "value": "a b"}]},
        {"when": [{"from": "header", "param": "X-Role", "matches": "^v"}]},
        {"when": [{"from": "body", "param": "card.type", "in": ["visa", "mc"]}]},
        {"when": [{"from": "body", "jsonPath": "$.items[?@.n > 1]", "absent": False}]},
        {"when": [{"from": "body", "param": "password", "absent": False}]},
        {"method": "POST", "when": [{"anyOf": [{"from": "query", "param": "q", "absent": True},
                             {"from": "body", "param": "n", "gte": 2}]}]},
    ],
)  # fmt: skip
def test_calls_are_found_by_what_is_known_of_them(question):
    body = {"card": {"type": "visa"}, "items": [{"n": 2}], "n": 2, "password": "hidden"}
    headers = [JSON, (b"x-role", b"vet"), (b"x-partita-mock-tag", b"t-1")]
    seen = call("/orders/7", body, headers=headers, query=b"q=a+b&q=c&token=hidden")
    far = call(
        "/x",
        time=0,
        method="GET",
        operation_id="",
        example="",
        surface_id="x",
        outcome=CallOutcome.NO_MATCH,
    )

    answer = ask([seen, far], count=1, **question) if question else ask([seen, far])

    assert answer["count"] == (1 if question else 2)
    assert answer["verified"]
    assert answer["calls"][0]["tag"] == "t-1"
    assert "hidden" not in str(answer)


@pytest.mark.parametrize(
    ("number", "question", "detail"),
    [
        (2, {"count": 2}, None),
        (2, {"atLeast": 1}, None),
        (2, {"atMost": 2, "atLeast": 2}, None),
        (0, {"count": 0}, None),
        (0, {"atMost": 3}, None),
        (0, {}, None),
        (0, {"count": 1}, "expected 1 call of POST /orders, found 0; there was no call"),
        (1, {"count": 2}, "expected 2 calls of POST /orders, found 1; there was no other call"),
        (0, {"atLeast": 2},
         "expected at least 2 calls of POST /orders, found 0; there was no call"),
        (0, {"atLeast": 1, "atMost": 3},
         "expected 1 to 3 calls of POST /orders, found 0; there was no call"),
        (2, {"atMost": 1}, "expected at most 1 call of POST /orders, found 2: "
         'POST /orders → 201 (example "made"); POST /orders → 201 (example "made")'),
    ],
)  # fmt: skip
def test_a_number_that_does_not_come_is_said_in_words(number, question, detail):
    answer = ask([call()] * number, method="POST", path="/orders", **question)

    assert (answer["count"], answer["verified"]) == (number, detail is None)
    assert answer["detail"] == (detail or f"found {number} calls of POST /orders")


@pytest.mark.parametrize(
    ("question", "difference"),
    [
        ({"method": "PUT"}, "method is POST, not PUT"),
        ({"operationId": "x"}, 'operation is "createOrder", not "x"'),
        ({"surfaceId": "x"}, 'surface is "shop", not "x"'),
        ({"path": "/x/{id}"}, "path is /orders, not /x/{id}"),
        ({"example": "x"}, 'answered by example "made", not by example "x"'),
        ({"outcome": "error"}, "outcome is example, not error"),
        ({"unmatched": True}, 'answered by example "made"'),
        ({"tag": "x"}, 'tag is "", not "x"'),
        ({"valid": False}, "it fits its contract"),
        ({"since": "2027-01-01T00:00:00Z"}, "it was earlier"),
        ({"when": [{"from": "body", "param": "n", "value": 2}]}, 'body.n is "1", not "2"'),
        ({"when": [{"from": "body", "param": "n", "gt": 2}]},
         'body.n is "1" and must be greater than "2"'),
        ({"when": [{"from": "body", "param": "n", "absent": True}]},
         'body.n is "1" and must be absent'),
    ],
)  # fmt: skip
def test_the_nearest_call_says_what_differs(question, difference):
    far = call("/far", {"n": 5}, method="GET", surface_id="far", operation_id="far", example="far",
               time=BEGIN.timestamp() - 9)  # fmt: skip
    answer = ask([call(body={"n": 1}), far], **{"count": 1, "path": "/orders", **question})

    assert not answer["verified"]
    assert answer["nearest"]["differences"] == [difference]
    assert answer["detail"].endswith(f'nearest: POST /orders → 201 (example "made"): {difference}')


def test_unmatched_calls_are_those_without_operation_or_example():
    lost = call("/pya", operation_id="", example="", outcome=CallOutcome.NO_MATCH, status=404)

    answer = ask([call(), lost], unmatched=True)

    assert [each["path"] for each in answer["calls"]] == ["/pya"]


def test_the_newest_calls_are_listed_up_to_a_limit():
    calls = [call(f"/{number}") for number in range(60)]

    assert len(ask(calls)["calls"]) == 50
    assert [each["path"] for each in ask(calls, limit=2)["calls"]] == ["/0", "/1"]
    assert ask(calls, limit=0)["count"] == 60


SECRET = [{"from": "body", "param": "token", "value": "abc"}]


@pytest.mark.parametrize(
    ("entry", "when", "reason"),
    [
        (call(body={"token": "abc"}), SECRET, "body.token is not known: the journal masks"),
        (call(body={"cards": [{"token": "abc"}]}),
         [{"from": "body", "jsonPath": "$.cards[?@.token == 'abc']", "absent": False}],
         "the journal masks"),
        (long_call(b'{"a": "' + b"x" * MAX_BODY_BYTES),
         [{"from": "body", "param": "a", "absent": True}], "the journal has the body in part"),
        (call(headers=[(b"x-large", b"y" * 20_000)]),
         [{"from": "header", "param": "x-other", "absent": True}],
         "the journal has the header in part"),
        (call(query=b"q=" + b"y" * 9_000), [{"from": "query", "param": "q", "contains": "y"}],
         "the journal has the query in part"),
    ],
)  # fmt: skip
def test_what_the_journal_masks_or_cuts_is_not_decided(entry, when, reason):
    missing = ask([entry], when=when, count=1)
    none = ask([entry], when=when, count=0)
    elsewhere = ask([entry], when=when, method="GET", count=0)
    enough = ask([entry], when=when, atMost=1)

    assert not missing["verified"]
    assert not none["verified"]
    assert "cannot be decided" in none["detail"]
    assert reason in none["detail"]
    assert elsewhere["verified"], "it differs anyway"
    assert enough["verified"], "whatever it is"
    assert reason in ask([entry], when=when)["detail"]


def test_calls_that_may_be_missing_decide_nothing():
    lost = "only the newest 1,000 calls of a space are kept"

    assert ask([call()], atLeast=1, gap=lost)["verified"]
    assert not ask([call()] * 2, atMost=1, gap=lost)["verified"]
    for question in ({"count": 1}, {"atMost": 1}, {"atLeast": 2}):
        answer = ask([call()], gap=lost, **question)
        assert not answer["verified"]
        assert f"cannot be decided: {lost}" in answer["detail"]


@pytest.mark.parametrize(
    ("body", "pointer", "text"),
    [
        ({"methd": "GET"}, "/methd", "did you mean method?"),
        ({"count": "2"}, "/count", "Expected `int | null`, got `str`"),
        ({"count": True}, "/count", "got `bool`"),
        ({"count": -1}, "/count", "0 or more"),
        ({"count": 1, "atMost": 2}, "/atMost", "write one of them"),
        ({"atLeast": 3, "atMost": 2}, "/atLeast", "more than atMost"),
        ({"limit": 201}, "/limit", "0 to 200"),
        ({"outcome": "matched"}, "/outcome", "example, fallback, no_match"),
        ({"since": "yesterday"}, "/since", "2026-01-02T03:04:05Z"),
        ({"since": "2026-01-02T03:04:05"}, "/since", "2026-01-02T03:04:05Z"),
        ({"tag": "no tag!"}, "/tag", "1 to 128"),
        ({"path": "/" + "a" * 9_000}, "/path", "too long"),
        ({"when": [{"from": "query", "param": "q", "value": "1"}, {"form": "query"}]},
         "/when/1", "did you mean from?"),
        ({"when": ["q=1"]}, "/when/0", "Expected `object`"),
        ({"when": [{"from": "state", "param": "a", "value": "1"}]}, "/when/0", "mocks/state"),
        ({"when": [{"from": "cookie", "param": "a", "value": "1"}]}, "/when/0", "masks cookies"),
        ({"when": [{"from": "header", "param": "Authorization", "value": "1"}]}, "/when/0",
         "only absent"),
        ({"when": [{"from": "path", "param": "id", "value": "1"}], "path": "/orders"},
         "/when/0", "/orders/{id}"),
        ({"when": [{"from": "query", "param": "q", "matches": "("}]}, "/when/0", "RE2"),
    ],
)  # fmt: skip
def test_a_question_that_is_none_is_refused_with_a_pointer(body, pointer, text):
    with pytest.raises(InvalidInput) as refused:
        read_question({"suiteId": "shop", **body})

    [error] = refused.value.errors
    assert error.pointer == pointer
    assert text in error.detail


@pytest.mark.parametrize("body", [[], "x", None, 5])
def test_a_question_is_an_object(body):
    with pytest.raises(InvalidInput):
        read_question(body)


def test_conditions_nested_too_deep_are_refused():
    deep: Any = {}
    for _ in range(100_000):
        deep = {"not": deep}

    with pytest.raises(InvalidInput, match="deep"):
        read_question({"suiteId": "shop", "when": [{"from": "query", "param": "q", **deep}]})


def test_null_counts_as_absent():
    assert ask([call()], count=None, outcome=None, when=None)["verified"]


def test_a_path_has_few_parameters_and_takes_linear_time():
    with pytest.raises(InvalidInput, match="at most 50"):
        ask([], path="/" + "{a}" * 51)

    answer = ask([call("/" + "x" * 8_000)] * 20, path="/" + "{a}" * 50 + "!")

    assert answer["count"] == 0
