"""`X-Partita-Mock-Tag` names the test that calls, and changes no answer; near misses are told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mocks.engine.documents import call_document
from mocks.journal.entries import decode_entry, encode_entry, nearest_for_caller
from mocks.journal.memory import MemoryJournal
from tests.support.mock_planes import ChangingSource, Planes, content_of, files, planes
from tests.support.mocks import ProxyAnswers

TAG = "x-partita-mock-tag"
SEEN = """
examples:
  tagged: {when: [{from: header, param: X-Partita-Mock-Tag, absent: false}], response: {body: no}}
  seen: {response: {body: "tag {{request.headers.x-partita-mock-tag}}"}}
"""
PICKY = """
spec: {state: {lookupKeyTemplate: k, defaults: {step: "hidden"}}}
examples:
  one:
    when:
      - {from: query, param: token, value: wanted-secret}
      - {from: state, param: step, value: done}
      - {from: query, param: q, value: apples}
    response: {body: one}
"""


def source(**changed: str) -> ChangingSource:
    made = ChangingSource()
    made.contents["orders"] = content_of(files(**changed))
    return made


def tags(made: Planes) -> list[str]:
    return [each.tag for each in made.journal.newest("orders")]


async def test_a_tag_is_in_the_journal_and_changes_no_answer():
    async with planes(source(listOrders=SEEN)) as made:
        for path in ("/orders", "/orders/1", "/nothing"):
            plain = await made.ask("GET", f"/mocks/rest/orders/orders{path}")
            tagged = await made.ask("GET", f"/mocks/rest/orders/orders{path}", headers={TAG: "t/1"})
            assert tagged.status_code == plain.status_code
            if plain.is_success:
                assert tagged.content == plain.content
        await made.ask("POST", "/mocks/grpc/orders/pay/Capture", headers={TAG: "t/2"}, json={})

        assert tags(made) == ["t/2", "t/1", "", "t/1", "", "t/1", ""]
        entry = made.journal.newest("orders")[0]
        assert call_document(entry)["tag"] == "t/2"
        assert decode_entry(encode_entry(entry)).tag == "t/2"


async def test_a_proxy_does_not_get_the_tag():
    proxy = ProxyAnswers()
    passed = "spec: {fallback: {mode: proxy, proxyUrl: 'http://other.test/'}}\nexamples: {}"
    async with planes(source(listOrders=passed), proxy=proxy) as made:
        headers = {TAG: "t", "x-own": "1"}
        await made.ask("GET", "/mocks/rest/orders/orders/orders", headers=headers)

        assert tags(made) == ["t"]
        [sent] = proxy.sent
        assert sent["headers"]["x-own"] == "1"
        assert TAG not in sent["headers"]


@pytest.mark.parametrize("tag", ["no tag", "a" * 129, "a,b", ""])
async def test_what_is_no_tag_is_none(tag: str):
    async with planes(source()) as made:
        await made.ask("GET", "/mocks/rest/orders/orders/orders", headers={TAG: tag})

        assert tags(made) == [""]


async def test_calls_of_a_tag_are_forgotten_and_the_state_stays():
    async with planes(source()) as made:
        path = "/mocks/rest/orders/orders/orders"
        for tag in ("a", "b"):
            await made.ask("POST", path, headers={TAG: tag, "x-tenant": "t"})
        assert isinstance(made.journal, MemoryJournal)

        assert await made.journal.clear("orders", tag="a") == 1
        assert await made.journal.clear("orders", tag="a", surface_id="x") == 0
        assert tags(made) == ["b"]
        again = await made.ask("POST", path, headers={TAG: "b", "x-tenant": "t"})
        assert again.json() == {"made": "2"}


def test_entries_of_redis_are_forgotten_by_their_tag():
    kept = MemoryJournal()

    async def fill() -> int:
        async with planes(source()) as made:
            for tag in ("a", "b"):
                await made.ask("GET", "/mocks/rest/orders/orders/orders", headers={TAG: tag})
            for each in made.journal.newest("orders"):
                kept.add("s", decode_entry(encode_entry(each)))
        return await kept.clear("s", tag="a")

    assert asyncio.run(fill()) == 1
    assert [each.tag for each in kept.newest("s")] == ["b"]


async def test_the_query_of_a_call_is_kept_without_its_credentials():
    async with planes(source()) as made:
        for path in ("/orders", "/orders/1"):
            query = "?q=a+b&api_key=hidden&access%5Ftoken=hidden&flag"
            await made.ask("GET", f"/mocks/rest/orders/orders{path}{query}")

        for entry in made.journal.newest("orders"):
            assert entry.request_query == "q=a+b&api_key=***&access%5Ftoken=***&flag"


async def test_a_call_without_a_match_says_what_was_nearest():
    async with planes(source(getOrder=PICKY)) as made:
        path = "/mocks/rest/orders/orders/orders/1?q=pears&token=sent-secret"
        answer = await made.ask("GET", path)

        document = answer.json()
        assert (answer.status_code, document["code"]) == (404, "mock_no_match")
        assert document["nearest"]["example"] == "one"
        token, state, query = document["nearest"]["conditions"]
        assert (token["expected"], token["actual"]) == ("***", "***")
        assert state == {"from": "state", "param": "step", "expected": "done", "ok": False}
        assert (query["expected"], query["actual"]) == ("apples", "pears")
        assert "secret" not in answer.text


async def test_a_call_without_an_operation_says_which_is_nearest():
    async with planes(source()) as made:
        answer = await made.ask("GET", "/mocks/rest/orders/orders/order/1")

        assert answer.json()["code"] == "operation_not_found"
        assert answer.json()["nearest"] == {
            "operationId": "getOrder", "method": "GET", "path": "/orders/{id}", "differs": "path",
        }  # fmt: skip
        assert made.journal.newest("orders")[0].nearest == answer.json()["nearest"]


async def test_a_flood_of_stray_calls_costs_no_comparison():
    async with planes(source()) as made:
        answers = [await made.ask("GET", "/mocks/rest/orders/orders/x") for _ in range(120)]

        assert "nearest" in answers[0].json()
        assert sum("nearest" in each.json() for each in answers) <= 101


def test_what_the_caller_gets_is_bounded():
    condition = {"from": "query", "param": "q", "expected": "x" * 900, "actual": "y" * 900}

    shown: Any = nearest_for_caller({"example": "one", "conditions": [condition] * 50})

    assert len(shown["conditions"]) == 10
    assert {len(each["actual"]) for each in shown["conditions"]} == {200}
