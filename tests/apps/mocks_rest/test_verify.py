"""`/api/v1/mocks/verify` and tags: what a test asks of its calls afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.mocks.services import inspection
from kernel import clock
from mocks.model.calls import CallOutcome, JournalEntry
from mocks.model.spaces import SpaceName
from tests.support.api_clients import problem

SHARED = SpaceName("shop")
VERIFY = "/api/v1/mocks/verify"
JOURNAL = "/api/v1/mocks/journal"
ORDERS = {"suiteId": "shop", "method": "POST", "path": "/orders"}


def verify(client: APIClient, **body: Any) -> Any:
    return client.post(VERIFY, {**ORDERS, **body}, format="json")


def test_calls_are_counted_listed_and_compared_with_what_is_expected(served, admin):
    for card in ("visa", "mc"):
        body = f'{{"card": "{card}"}}'
        served.note(SHARED, method="POST", path="/orders", request_body=body, status=201)

    right = verify(admin, count=2).json()
    assert (right["count"], right["verified"]) == (2, True)
    assert right["detail"] == "found 2 calls of POST /orders"
    assert [each["id"] for each in right["calls"]] == ["call-0002", "call-0001"]
    assert "nearest" not in right
    visa = [{"from": "body", "param": "card", "value": "visa"}]
    assert verify(admin, when=visa, count=1).json()["verified"]
    wrong = verify(admin, when=visa, count=2).json()
    assert not wrong["verified"]
    assert wrong["detail"] == (
        'expected 2 calls of POST /orders with body.card "visa", found 1; '
        'nearest: POST /orders → 201 (example): body.card is "mc", not "visa"'
    )
    assert wrong["nearest"]["call"]["id"] == "call-0002"


def test_calls_that_nothing_answered_are_found(served, admin):
    served.note(SHARED)
    served.note(SHARED, path="/gods", outcome=CallOutcome.NO_MATCH, operation_id="", status=404)

    body = {"suiteId": "shop", "unmatched": True, "count": 0}
    answer = admin.post(VERIFY, body, format="json").json()

    assert (answer["count"], answer["verified"]) == (1, False)
    assert answer["detail"] == (
        "expected 0 calls of any call with no match, found 1: GET /gods → 404 (no match)"
    )


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"paht": "/x"}, "/paht"),
        ({"when": [{"from": "query", "param": "q", "is": "x"}]}, "/when/0"),
        ({"count": "2"}, "/count"),
        ({"suiteId": None}, "/suiteId"),
        ({"suiteId": "a/b"}, "/suiteId"),
        ({"import": "pay"}, "/import"),
    ],
)
def test_a_mistake_is_named_by_its_pointer(served, admin, body, pointer):
    refused = verify(admin, **body)

    assert problem(refused) == (400, "validation_failed")
    assert refused.json()["errors"][0]["pointer"] == pointer


def test_a_shared_space_is_for_administrators(served, member, admin):
    """Invariant 17."""
    assert problem(verify(member)) == (403, "admin_required")
    assert problem(verify(admin, suiteId="nothing")) == (404, "suite_not_found")


def test_a_full_journal_decides_no_exact_number(served, admin):
    for _ in range(1_001):
        served.note(SHARED, method="POST", path="/orders")

    assert verify(admin, atLeast=1).json()["verified"]
    answer = verify(admin, method="GET", count=0).json()
    assert not answer["verified"]
    assert "only the newest 1,000 calls of a space are kept" in answer["detail"]
    newest: datetime = served.journal.newest("shop")[0].time
    since = verify(admin, count=1, since=clock.rfc3339(newest)).json()
    assert since["verified"]


def test_with_several_servers_it_waits_for_the_calls_of_the_others(served, admin, monkeypatch):
    looks: list[list[JournalEntry]] = []

    def read_journal(name: SpaceName) -> list[JournalEntry]:
        if len(looks) == 2:
            served.note(name, method="POST", path="/orders")
        looks.append(served.journal.newest(str(name)))
        return looks[-1]

    monkeypatch.setattr(inspection, "read_journal", read_journal)
    monkeypatch.setattr(inspection, "living_servers", lambda: 2)
    monkeypatch.setattr(inspection, "journal_delay_s", lambda: 20.0)

    assert verify(admin, atLeast=1).json()["verified"]
    assert len(looks) == 3


def test_calls_of_one_test_are_read_verified_and_forgotten_by_its_tag(served, admin):
    for tag in ("t-1", "t-2", "t-1", ""):
        served.note(SHARED, method="POST", path="/orders", tag=tag)

    entries = admin.get(f"{JOURNAL}?suiteId=shop&tag=t-1").json()["entries"]
    assert [each["tag"] for each in entries] == ["t-1", "t-1"]
    assert verify(admin, tag="t-2", count=1).json()["verified"]
    assert problem(admin.get(f"{JOURNAL}?suiteId=shop&tag=a b")) == (400, "validation_failed")
    assert problem(admin.delete(f"{JOURNAL}?suiteId=shop&tag=*")) == (400, "validation_failed")
    assert admin.delete(f"{JOURNAL}?suiteId=shop&tag=t-1").json() == {"removed": 2}
    assert verify(admin, tag="t-1", count=0).json()["verified"]
    assert verify(admin, count=2).json()["verified"]
