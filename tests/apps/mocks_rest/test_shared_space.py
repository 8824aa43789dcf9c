"""The shared space of a suite: explain for everybody, state and calls for administrators."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from rest_framework.test import APIClient

from mocks.model.calls import CallOutcome
from mocks.model.spaces import SpaceName
from tests.support.api_clients import problem
from tests.support.served_mocks import MemoryParts

SHARED = SpaceName("shop")
EXPLAIN = "/api/v1/mocks/explain"
STATE = "/api/v1/mocks/state"
JOURNAL = "/api/v1/mocks/journal"
ORDER = {"suiteId": "shop", "surfaceId": "shop", "method": "POST", "path": "/orders"}
ROUTES = [("get", STATE), ("delete", STATE), ("get", JOURNAL), ("delete", JOURNAL)]


def explain(client: APIClient, **body: Any) -> Any:
    return client.post(EXPLAIN, {**ORDER, **body}, format="json")


def order(served: MemoryParts, body: bytes = b'{"apple": 1}') -> None:
    served.call(SHARED, "shop", "POST", "/orders", body)


def test_an_explanation_shows_each_condition_and_changes_nothing(served, member):
    explained = explain(member, body={"yacht": 1}).json()

    assert explained["operationId"] == "createOrder"
    assert explained["chosen"] == "refused"
    refused, accepted = explained["candidates"]
    assert refused["conditions"] == [
        {"from": "body", "param": "yacht", "expected": "1", "actual": "1", "ok": True}
    ]
    assert (accepted["name"], accepted["matched"]) == ("accepted", True)
    assert asyncio.run(served.state.records("shop")) == []


def test_a_text_is_sent_as_it_is_and_other_bodies_as_json(served, member):
    assert explain(member, body='{"yacht": 1}').json()["chosen"] == "refused"
    assert explain(member, body=["yacht"]).json()["chosen"] == "accepted"


def test_an_operation_is_named_by_its_id_or_by_method_and_path(served, member):
    by_path = explain(member, method="get", path="goods?q=ea&q=x").json()
    by_id = explain(member, method="", path="", operationId="listGoods", query={"q": "ea"}).json()

    assert by_path["chosen"] == by_id["chosen"] == "search"
    grpc = explain(member, surfaceId="payments", operationId="Capture", method="", path="")
    assert grpc.json()["operationId"] == "Capture"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"suiteId": "nothing"}, (404, "suite_not_found")),
        ({"surfaceId": "nothing"}, (404, "surface_not_found")),
        ({"path": "/nothing"}, (404, "operation_not_found")),
        ({"operationId": "nothing"}, (404, "operation_not_found")),
        ({"operationId": "health", "path": "/orders"}, (400, "validation_failed")),
        ({"method": "", "path": ""}, (400, "validation_failed")),
        ({"suiteId": "shop@run-0123456789ab"}, (400, "validation_failed")),
        ({"import": "pay"}, (400, "validation_failed")),
        ({"executionId": "run-0123456789ab"}, (404, "execution_not_found")),
        ({"path": "/orders?" + "&".join(["a=1"] * 1001)}, (400, "validation_failed")),
        ({"extra": 1}, (400, "validation_failed")),
    ],
)  # fmt: skip
def test_what_cannot_be_explained_is_refused(served, member, body, expected):
    assert problem(explain(member, **body)) == expected


def test_a_misspelled_key_is_named_with_what_was_meant(served, member, admin):
    for refused, misspelled, meant in (
        (explain(member, pth="/orders"), "pth", "path"),
        (patch(admin, surfaceid="shop"), "surfaceid", "surfaceId"),
    ):
        [error] = refused.json()["errors"]
        assert (error["pointer"], error["code"]) == (f"/{misspelled}", "unknown_field")
        assert f"did you mean {meant}?" in error["detail"]


def test_others_than_administrators_see_the_defaults_of_the_state_only(served, member, admin):
    order(served)

    assert explain(admin).json()["state"] == {"placed": "1"}
    assert explain(member).json()["state"] == {"placed": "0"}


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_state_and_calls_are_for_administrators(served, member, admin, method, path):
    """Invariant 17."""
    order(served)

    refused = getattr(member, method)(f"{path}?suiteId=shop")

    assert problem(refused) == (403, "admin_required")
    assert len(served.journal.newest("shop")) == 1
    assert getattr(admin, method)(f"{path}?suiteId=shop").status_code == 200
    unknown = getattr(admin, method)(f"{path}?suiteId=nothing")
    assert problem(unknown) == (404, "suite_not_found")


def test_records_and_counters_are_read_in_pages_and_removed(served, admin):
    order(served)
    for key in ("b", "a", "c"):
        patch(admin, key=key, surfaceId="shop", set={"n": key})
    asyncio.run(served.state.draw("shop", "payments", "Capture"))

    first = admin.get(f"{STATE}?suiteId=shop&limit=3").json()
    second = admin.get(f"{STATE}?suiteId=shop&limit=3&cursor={first['nextCursor']}").json()

    assert [each["key"] for each in first["records"]] == ["a", "b", "c"]
    assert [each["key"] for each in second["records"]] == ["orders"]
    assert second["records"][0]["fields"] == {"placed": "1"}
    assert first["counters"] == [{"surfaceId": "payments", "operationId": "Capture", "value": 1}]
    one = admin.delete(f"{STATE}?suiteId=shop&key=a")
    of_payments = admin.delete(f"{STATE}?suiteId=shop&surfaceId=payments")
    rest = admin.delete(f"{STATE}?suiteId=shop")
    assert [each.json()["removed"] for each in (one, of_payments, rest)] == [1, 1, 3]


def patch(client: APIClient, **body: Any) -> Any:
    return client.patch(STATE, {"suiteId": "shop", "key": "orders", **body}, format="json")


def test_a_patch_sets_and_deletes_fields_at_once(served, admin):
    order(served)

    record = patch(admin, set={"paid": "yes"}, delete=["placed"]).json()

    assert (record["fields"], record["version"]) == ({"paid": "yes"}, 2)
    assert record == admin.get(f"{STATE}?suiteId=shop&key=orders").json()["records"][0]


def test_a_patch_takes_effect_only_on_the_version_it_names(served, admin):
    order(served)

    assert problem(patch(admin, version=7, set={"placed": "9"})) == (412, "precondition_failed")
    assert problem(patch(admin, version=0, set={"placed": "9"})) == (412, "precondition_failed")
    assert patch(admin, version=1, set={"placed": "9"}).json()["version"] == 2


def test_a_new_record_needs_its_surface(served, admin):
    assert problem(patch(admin, key="new", set={"a": "1"})) == (404, "not_found")
    unknown = patch(admin, key="new", set={"a": "1"}, surfaceId="nothing")
    assert problem(unknown) == (404, "surface_not_found")

    made = patch(admin, key="new", set={"a": "1"}, surfaceId="shop", version=0).json()

    assert (made["surfaceId"], made["fields"], made["version"]) == ("shop", {"a": "1"}, 1)


def test_a_record_has_a_limit(served, admin, member):
    too_large = patch(admin, key="new", surfaceId="shop", set={"a": "x" * (64 * 2**10)})

    assert problem(too_large) == (400, "validation_failed")
    assert too_large.json()["errors"][0]["pointer"] == "/set"
    assert problem(patch(member, set={"a": "1"})) == (403, "admin_required")


def test_a_patch_that_loses_every_race_says_so(served, admin, monkeypatch):
    order(served)

    async def lost(*_: object, **__: object) -> bool:
        return False

    monkeypatch.setattr(served.state, "change", lost)

    assert problem(patch(admin, set={"a": "1"})) == (412, "precondition_failed")


def test_calls_are_read_newest_first_and_filtered(served, admin):
    for number in range(5):
        served.note(SHARED, path=f"/goods/{number}")
    served.note(
        SHARED,
        outcome=CallOutcome.NO_MATCH,
        operation_id="",
        status=404,
        nearest={"example": "search", "conditions": []},
    )

    first = admin.get(f"{JOURNAL}?suiteId=shop&limit=4").json()
    second = admin.get(f"{JOURNAL}?suiteId=shop&limit=4&cursor={first['nextCursor']}").json()

    assert [each["id"] for each in first["entries"]] == [f"call-000{n}" for n in (6, 5, 4, 3)]
    assert [each["id"] for each in second["entries"]] == ["call-0002", "call-0001"]
    assert first["entries"][0]["nearest"]["example"] == "search"
    assert "operationId" not in first["entries"][0]
    assert first["entries"][1]["durationMs"] == 0
    unmatched = admin.get(f"{JOURNAL}?suiteId=shop&outcome=no_match").json()["entries"]
    assert [each["id"] for each in unmatched] == ["call-0006"]
    of_goods = admin.get(f"{JOURNAL}?suiteId=shop&surfaceId=shop&operationId=listGoods").json()
    assert len(of_goods["entries"]) == 5


def test_calls_are_forgotten(served, admin):
    served.note(SHARED)
    served.note(SHARED, operation_id="createOrder")

    one = admin.delete(f"{JOURNAL}?suiteId=shop&operationId=createOrder").json()

    assert one == {"removed": 1}
    assert [each.operation_id for each in served.journal.newest("shop")] == ["listGoods"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "invalid_parameter"),
        ("suiteId=shop%40run-0123456789ab", "invalid_parameter"),
        ("suiteId=shop&import=pay", "invalid_parameter"),
        ("suiteId=shop&executionId=run-x%2By", "invalid_parameter"),
        ("suiteId=shop&outcome=good", "invalid_parameter"),
        ("suiteId=shop&limit=0", "invalid_parameter"),
        ("suiteId=shop&cursor=x", "invalid_cursor"),
        ("suiteId=shop&colour=red", "unknown_parameter"),
    ],
)
def test_parameters_are_strict(served, admin, query, code):
    assert problem(admin.get(f"{JOURNAL}?{query}")) == (400, code)
