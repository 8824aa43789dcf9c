"""Explain: why a call is answered as it is (reference: control-plane 18.1)."""

from __future__ import annotations

import copy

import pytest

from mocks.model.ports import ScriptFailed
from tests.support.mocks import mock_of

SPEC = """path: '/pay/{id}', method: POST, delayMillis: 25, parameterConstraints: [
  {name: X-T, source: header, required: true, pattern: '^[a-z]+$'}, {name: q}],
  fallback: {status: '404', body: none}, state: {lookupKeyTemplate: 'p:{{request.path.id}}',
  defaults: {status: new}, transitions: [{onExample: paid, increment: {n: 1}},
  {onExample: gone, delete: ['*']}]}"""
EXAMPLES = """first: {when: [{from: query, param: e, value: first}], response: {body: first}},
  paid: {when: [{from: query, param: e, value: paid}, {from: state, param: status, value: new}],
  response: {status: '201', headers: {X-A: b}, body: {n: '{{state.n}}'}}},
  gone: {when: [{from: header, param: X-T, value: gone}], response: {body: gone}}"""
HEADERS = {"X-T": "acme"}


def mocks():
    return mock_of(SPEC, EXAMPLES)


async def test_it_says_what_was_compared_and_what_was_chosen():
    found = await mocks().explain("/pay/7?e=paid", headers=HEADERS)
    assert found == {
        "operationId": "pay",
        "dispatcher": "example",
        "constraints": [
            {"name": "X-T", "source": "header", "value": "acme", "ok": True},
            {"name": "q", "source": "query", "ok": True},
        ],
        "candidates": [
            {
                "name": "paid", "order": 2, "matched": True,
                "conditions": [
                    {"from": "query", "param": "e", "expected": "paid", "actual": "paid",
                     "ok": True},
                    {"from": "state", "param": "status", "expected": "new", "actual": "new",
                     "ok": True},
                ],
            },
            {
                "name": "first", "order": 1, "matched": False,
                "conditions": [
                    {"from": "query", "param": "e", "expected": "first", "actual": "paid",
                     "ok": False},
                ],
            },
            {
                "name": "gone", "order": 3, "matched": False,
                "conditions": [
                    {"from": "header", "param": "X-T", "expected": "gone", "actual": "acme",
                     "ok": False},
                ],
            },
        ],
        "chosen": "paid",
        "schemaErrors": [],
        "stateKey": "p:7",
        "state": {"status": "new"},
        "transition": {"key": "p:7", "onExample": "paid", "fields": {"status": "new", "n": "1"}},
        "response": {
            "status": 201, "mediaType": "application/json", "headers": {"X-A": ["b"]},
            "body": '{\n  "n": ""\n}', "delayMillis": 25,
        },
    }  # fmt: skip


async def test_the_answer_afterwards_is_the_explained_one():
    found = mocks()
    for target in ("/pay/7?e=paid", "/pay/7?e=first", "/pay/7?e=paid", "/pay/7"):
        for headers in (HEADERS, {"X-T": "gone"}):
            explained = await found.explain(target, headers=headers)
            answer = await found.call(target, headers=headers)
            assert explained["response"]["body"] == answer.body.decode()
            assert explained["response"]["status"] == answer.status
            assert explained.get("fallback", "") == answer.fallback
            assert explained.get("chosen", "") == (answer.example if not answer.fallback else "")
            assert explained.get("transition", {}).get("key", "") == answer.state_key


async def test_it_changes_nothing_and_sends_nothing():
    found = mocks()
    await found.call("/pay/7?e=paid", headers=HEADERS)
    before = copy.deepcopy((found.state.stored, found.state.drawn))
    gone = await found.explain("/pay/7", headers={"X-T": "gone"})
    assert gone["transition"] == {"key": "p:7", "onExample": "gone", "removed": True}
    assert (found.state.stored, found.state.drawn) == before

    proxied = mock_of("path: /pay, method: POST, fallback: {proxyUrl: 'https://up/'}", "")
    explained = await proxied.explain("/pay?a=1")
    assert (explained["fallback"], explained["proxyUrl"]) == ("proxy", "https://up/pay?a=1")
    assert "response" not in explained
    assert proxied.proxy.sent == []


@pytest.mark.parametrize("dispatcher", ["sequence", "random"])
async def test_it_shows_the_next_draw_without_drawing(dispatcher):
    rules = "" if dispatcher == "sequence" else ", dispatcherRules: seed=3"
    found = mock_of(
        f"path: /pay, method: POST, dispatcher: {dispatcher}{rules}",
        "a: {response: {body: a}}, b: {response: {body: b}}, c: {response: {body: c}}",
    )
    for _ in range(6):
        explained = await found.explain("/pay")
        assert explained == await found.explain("/pay")
        assert explained["chosen"] == (await found.call("/pay")).example


async def test_with_defaults_only_no_record_and_no_counter_is_seen():
    found = mocks()
    await found.state.change(
        "shop", "p:7", "payments", version=0, fields={"status": "secret", "n": "5"}
    )
    explained = await found.explain("/pay/7?e=paid", headers=HEADERS, defaults_only=True)
    assert explained["chosen"] == "paid"
    assert "secret" not in str(explained)
    assert explained["transition"]["fields"] == {"status": "new", "n": "1"}

    sequence = mock_of(
        "path: /pay, method: POST, dispatcher: sequence",
        "a: {response: {body: a}}, b: {response: {body: b}}",
    )
    await sequence.call("/pay")
    assert (await sequence.explain("/pay"))["chosen"] == "b"
    assert (await sequence.explain("/pay", defaults_only=True))["chosen"] == "a"


async def test_a_failed_constraint_ends_the_call():
    explained = await mocks().explain("/pay/7?e=paid", headers={"X-T": "A1"})
    assert explained["constraints"][0] == {
        "name": "X-T", "source": "header", "value": "A1", "ok": False,
        "detail": "the header parameter X-T must match ^[a-z]+$",
    }  # fmt: skip
    assert explained["error"]["code"] == "mock_constraint_failed"
    assert not {"chosen", "response", "transition"} & explained.keys()
    assert [each["matched"] for each in explained["candidates"]] == [True, False, False]


async def test_a_request_that_breaks_the_schema_is_said_with_pointers():
    found = mock_of(
        "path: /pay, method: POST",
        "a: {requestSchema: {body: {type: object, required: [n]}}, response: {body: ok}}",
    )
    explained = await found.explain("/pay", body=b"{}")
    assert explained["chosen"] == "a"
    assert [each["pointer"] for each in explained["schemaErrors"]] == ["/n"]
    assert explained["error"]["code"] == "mock_request_invalid"
    assert (await found.explain("/pay", body=b'{"n": 1}'))["schemaErrors"] == []


async def test_no_match_a_failed_script_and_broken_metadata_are_said():
    when = "a: {when: [{from: query, param: q, value: 1}]}"
    found = mock_of("path: /pay, method: POST", when)
    error = (await found.explain("/pay"))["error"]
    assert (error["code"], error["nearest"]["example"]) == ("mock_no_match", "a")

    script = mock_of("path: /pay, method: POST, dispatcher: script, dispatcherRules: 'None'", when)
    script.scripts.named = ScriptFailed("the script takes too long")
    assert (await script.explain("/pay"))["error"]["code"] == "mock_script_failed"


async def test_long_values_are_cut():
    found = mock_of(
        "path: /pay, method: POST, parameterConstraints: [{name: a, source: body}]",
        """a: {when: [{from: body, param: a, value: x}]},
        b: {response: {body: '{{request.body.a}}'}}""",
    )
    explained = await found.explain("/pay", body=b'{"a": "%s"}' % (b"x" * 1_000_000))
    assert len(explained["constraints"][0]["value"]) == 1_000
    assert len(explained["candidates"][0]["conditions"][0]["actual"]) == 1_000
    assert len(explained["response"]["body"]) == 256 * 1024
