"""Which example answers (reference: control-plane 18.3)."""

from __future__ import annotations

import pytest

from mocks.engine.dispatch import dispatchers
from mocks.model.ports import ScriptFailed
from surfaces.model import DISPATCHERS
from tests.support.mocks import mock_of

STATE = "state: {lookupKeyTemplate: k, defaults: {status: new, n: '1'}}"


def example(name: str, when: str = "") -> str:
    return f"{name}: {{when: [{when}], response: {{body: {name}}}}}"


def condition(source: str, param: str, value: object) -> str:
    return f"{{from: {source}, param: '{param}', value: {value}}}"


def test_every_dispatcher_of_metadata_is_a_plug_in():
    assert list(dispatchers) == sorted(DISPATCHERS)


@pytest.mark.parametrize(
    ("source", "param", "value", "matches"),
    [
        ("path", "id", "'7'", True),
        ("path", "id", "'8'", False),
        ("path", "ID", "'7'", False),
        ("query", "q", "a b", True),
        ("query", "q", "second", False),
        ("query", "empty", "''", True),
        ("query", "absent", "''", False),
        ("header", "X-Tenant", "acme", True),
        ("header", "x-TENANT", "acme", True),
        ("header", "x-tenant", "Acme", False),
        ("body", "card.type", "visa", True),
        ("body", "card.n", 4, True),
        ("body", "card.n", "'4'", True),
        ("body", "card.n", "'4.0'", False),
        ("body", "card.f", 1.5, True),
        ("body", "card.ok", "true", True),
        ("body", "card.ok", "'true'", True),
        ("body", "card.ok", "'True'", False),
        ("body", "card.none", "'null'", True),
        ("body", "items[1].id", "b", True),
        ("body", "items[2].id", "b", False),
        ("body", "items[0]", """'{"id":"a"}'""", True),
        ("body", "card.absent", "''", False),
        ("state", "status", "new", True),
        ("state", "n", 1, True),
        ("state", "absent", "''", False),
    ],
)
async def test_a_condition_compares_the_text_of_what_is_there(source, param, value, matches):
    mocks = mock_of(
        f"path: '/pay/{{id}}', method: POST, {STATE}",
        f"{example('yes', condition(source, param, value))}, {example('no')}",
    )
    body = b"""{"card": {"type": "visa", "n": 4, "f": 1.5, "ok": true, "none": null},
        "items": [{"id": "a"}, {"id": "b"}]}"""
    answer = await mocks.call(
        "/pay/7?q=a+b&q=second&empty=", headers={"X-Tenant": "acme"}, body=body
    )
    assert answer.body == (b"yes" if matches else b"no")


A, B, C = (condition("query", name, 1) for name in "abc")


@pytest.mark.parametrize(
    ("examples", "query", "chosen"),
    [
        ([("one", ""), ("two", "")], "", "one"),
        ([("none", ""), ("a", A)], "a=1", "a"),
        ([("none", ""), ("a", A)], "a=2", "none"),
        ([("a", A), ("b", B)], "a=1&b=1", "a"),
        ([("b", B), ("a", A)], "a=1&b=1", "b"),
        ([("a", A), ("bc", f"{B}, {C}")], "a=1&b=1&c=1", "bc"),
        ([("a", A), ("bc", f"{B}, {C}")], "a=1&b=1", "a"),
        ([("ab", f"{A}, {B}"), ("bc", f"{B}, {C}"), ("abc", f"{A}, {B}, {C}")],
         "a=1&b=1&c=1", "abc"),
        ([("bc", f"{B}, {C}"), ("ab", f"{A}, {B}")], "a=1&b=1&c=1", "bc"),
        ([("twice", f"{A}, {A}"), ("a", A)], "a=1", "twice"),
        ([("never", f"{A}, {condition('query', 'a', 2)}"), ("a", A)], "a=1", "a"),
        ([("other", condition("query", "a", 0)), ("b", B), ("a", A)], "a=1&b=1", "b"),
        ([("a", A)], "b=1", None),
        ([], "", None),
    ],
)  # fmt: skip
async def test_example_takes_most_conditions_first_then_the_order_of_the_file(
    examples, query, chosen
):
    files = ", ".join(example(*each) for each in examples)
    mocks = mock_of("path: /pay, method: GET", files)
    answer = await mocks.call(f"/pay?{query}")
    assert (answer.example or None) == chosen
    assert answer.error_code == ("" if chosen else "mock_no_match")


async def test_schema_and_literal_examples_are_candidates_alike():
    schema = "s: {when: [], responseSchema: {body: {type: string, const: schema}}}"
    mocks = mock_of("path: /pay, method: GET", f"{schema}, {example('literal')}")
    assert (await mocks.call("/pay")).body == b"schema"


async def draws(mocks, count: int, target: str = "/pay") -> str:
    return "".join([(await mocks.call(target)).example or "-" for _ in range(count)])


@pytest.mark.parametrize(
    ("rules", "targets", "drawn"),
    [
        ("", "/pay", "abcabca"),
        ("''", "/pay", "abcabca"),
        ("'c, a, a'", "/pay", "caacaac"),
        ("c", "/pay", "ccccccc"),
        ("'once: c, a, b'", "/pay", "cabbbbb"),
        ("'ONCE : b'", "/pay", "bbbbbbb"),
    ],
)
async def test_sequence_goes_through_the_matches_or_the_list(rules, targets, drawn):
    mocks = mock_of(
        f"path: /pay, method: GET, dispatcher: sequence, dispatcherRules: {rules}",
        ", ".join(example(name) for name in "abc"),
    )
    assert await draws(mocks, 7, targets) == drawn
    await mocks.state.reset("shop")
    assert await draws(mocks, 3, targets) == drawn[:3]


async def test_sequence_without_rules_counts_calls_among_matches_only():
    mocks = mock_of(
        "path: /pay, method: GET, dispatcher: sequence",
        f"{example('a', A)}, {example('b')}, {example('c', A)}",
    )
    assert await draws(mocks, 2, "/pay?a=1") == "ab"
    assert await draws(mocks, 2) == "bb"
    assert await draws(mocks, 2, "/pay?a=1") == "bc"


async def test_sequence_draws_nothing_without_a_match():
    mocks = mock_of("path: /pay, method: GET, dispatcher: sequence", example("a", A))
    assert (await mocks.call("/pay")).error_code == "mock_no_match"
    assert not mocks.state.drawn


async def test_sequence_with_rules_ignores_conditions():
    mocks = mock_of(
        "path: /pay, method: GET, dispatcher: sequence, dispatcherRules: 'a, b'",
        f"{example('a', A)}, {example('b', B)}",
    )
    assert await draws(mocks, 4) == "abab"


def weighted(rules: str, seed: int = 1, **options):
    return mock_of(
        f"path: /pay, method: GET, dispatcher: random, dispatcherRules: '{rules}'",
        ", ".join(example(name) for name in "abc"),
        seed=seed,
        **options,
    )


async def test_random_draws_each_match_alike():
    drawn = await draws(weighted(""), 3_000)
    assert all(850 < drawn.count(name) < 1_150 for name in "abc")


async def test_random_draws_by_weight_and_only_what_is_named():
    drawn = await draws(weighted("a=3; b=1"), 2_000)
    assert drawn.count("c") == 0
    assert 1_380 < drawn.count("a") < 1_620
    assert set(await draws(weighted("a=0; c=2"), 50)) == {"c"}


async def test_random_draws_among_matches():
    mocks = mock_of(
        "path: /pay, method: GET, dispatcher: random, dispatcherRules: 'a=1; b=1'",
        f"{example('a', A)}, {example('b')}, {example('c')}",
    )
    assert set(await draws(mocks, 50)) == {"b"}
    assert set(await draws(mocks, 50, "/pay?a=1")) == {"a", "b"}


async def test_random_without_a_match_is_no_match():
    mocks = mock_of(
        "path: /pay, method: GET, dispatcher: random, dispatcherRules: 'a=1'",
        f"{example('a', A)}, {example('b')}",
    )
    assert (await mocks.call("/pay")).error_code == "mock_no_match"


async def test_draws_with_a_seed_depend_on_the_place_and_the_count_alone():
    first = await draws(weighted("seed=42", seed=1), 40)
    assert first == await draws(weighted("seed=42", seed=2), 40)
    assert first == await draws(weighted("seed=42", space="shop@run-1"), 40)
    assert first != await draws(weighted("seed=43"), 40)
    assert first != await draws(weighted("seed=42", suite_id="other", space="other"), 40)
    assert set(first) == set("abc")
    mocks = weighted("seed=42")
    await draws(mocks, 5)
    await mocks.state.reset("shop")
    assert await draws(mocks, 40) == first


SCRIPT = "path: '/pay/{id}', method: POST, dispatcher: script, dispatcherRules: '\"a\"'"


async def test_a_script_names_the_example():
    mocks = mock_of(f"{SCRIPT}, {STATE}", f"{example('a', A)}, {example('b', B)}")
    mocks.scripts.named = "b"
    answer = await mocks.call("/pay/7?q=1", headers={"X-A": "x"}, body=b'{"n": 1}')
    assert answer.body == b"b"
    assert mocks.scripts.calls == [
        {
            "source": '"a"',
            "state": {"status": "new", "n": "1"},
            "request": {
                "method": "POST", "path": "/pay/7", "params": {"id": "7"}, "query": {"q": "1"},
                "headers": {"x-a": "x"}, "body": {"n": 1}, "rawBody": '{"n": 1}',
            },
        }
    ]  # fmt: skip


async def test_a_script_that_names_none_leads_to_the_fallback():
    mocks = mock_of(f"{SCRIPT}, fallback: {{body: none}}", example("a"))
    assert (await mocks.call("/pay/7")).body == b"none"


@pytest.mark.parametrize("named", ["unknown", ScriptFailed("the script takes too long")])
async def test_a_script_that_fails_or_names_another_is_an_error(named):
    mocks = mock_of(f"{SCRIPT}, fallback: {{body: none}}", example("a"))
    mocks.scripts.named = named
    answer = await mocks.call("/pay/7")
    assert (answer.status, answer.error_code) == (500, "mock_script_failed")
    assert answer.outcome == "error"
