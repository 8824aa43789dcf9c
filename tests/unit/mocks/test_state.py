"""State of mocks: keys, transitions, what templates see (reference: control-plane 18.5)."""

from __future__ import annotations

import pytest

from mocks.engine.transitions import MAX_KEY, increment
from mocks.model.calls import CallOutcome
from tests.support.mocks import StateInDicts, mock_of, mocks_of

SPEC = "path: '/pay/{id}', method: POST"
OK = "a: {response: {body: 'status {{state.status}}'}}"


def stateful(rules: str, examples: str = OK, **options):
    return mock_of(f"{SPEC}, state: {{{rules}}}", examples, **options)


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ("lookupKeyTemplate: 'l:{{request.path.id}}'", "l:7"),
        ("mutationKeyTemplate: 'm:{{request.path.id}}'", "m:7"),
        ("lookupKeyTemplate: 'l:{{request.path.id}}', mutationKeyTemplate: m", "l:7"),
        ("lookupKeyTemplate: '', mutationKeyTemplate: m", "m"),
        ("defaults: {a: b}", "operation:pay"),
        ("lookupKeyTemplate: '{{request.body.card.id}}'", "c1"),
    ],
)
async def test_the_lookup_key_is_a_template_with_two_defaults(rules, key):
    mocks = stateful(rules)
    await mocks.state.change("shop", key, "payments", version=0, fields={"status": "paid"})
    answer = await mocks.call("/pay/7", body=b'{"card": {"id": "c1"}}')
    assert answer.body == b"status paid"


@pytest.mark.parametrize("key", ["'{{request.query.k}}'", "' '", "' {{request.query.k}} '"])
async def test_a_blank_lookup_key_leads_to_the_defaults(key):
    mocks = stateful(f"lookupKeyTemplate: {key}, defaults: {{status: new}}")
    assert (await mocks.call("/pay/7")).body == b"status new"
    assert mocks.state.reads == 0


async def test_defaults_are_overlaid_by_the_record():
    mocks = stateful(
        "lookupKeyTemplate: k, defaults: {a: '1', b: '2'}",
        "a: {response: {body: '{{state.a}} {{state.b}} {{state.c}}'}}",
    )
    assert (await mocks.call("/pay/7")).body == b"1 2 "
    await mocks.state.change("shop", "k", "payments", version=0, fields={"b": "3", "c": "4"})
    assert (await mocks.call("/pay/7")).body == b"1 3 4"


MUTATION = "transitions: [{set: {done: 'yes'}, mutationKeyTemplate: %s}]"


@pytest.mark.parametrize(
    ("rules", "of_transition", "key"),
    [
        ("lookupKeyTemplate: l, mutationKeyTemplate: m", "t", "t"),
        ("lookupKeyTemplate: l, mutationKeyTemplate: m", "''", "m"),
        ("lookupKeyTemplate: l", "''", "l"),
        ("mutationKeyTemplate: m", "''", "m"),
        ("defaults: {}", "''", "operation:pay"),
        ("lookupKeyTemplate: l", "'t:{{request.path.id}}:{{match.example}}'", "t:7:a"),
        ("lookupKeyTemplate: l", "'{{response.body}}'", "status "),
        ("lookupKeyTemplate: ''", "'{{request.query.none}}'", None),
        ("lookupKeyTemplate: '{{request.query.none}}'", "''", None),
        ("lookupKeyTemplate: l, mutationKeyTemplate: '{{request.query.none}}'", "''", None),
    ],
)
async def test_the_mutation_key_is_of_the_transition_the_state_or_the_lookup(
    rules, of_transition, key
):
    mocks = stateful(f"{rules}, {MUTATION % of_transition}")
    answer = await mocks.call("/pay/7")
    assert answer.state_key == (key or "")
    expected = {key: {"done": "yes"}} if key else {}
    assert {name: each.fields for (_, name), each in mocks.state.stored.items()} == expected


EXAMPLES = ", ".join(
    f"{name}: {{when: [{{from: query, param: e, value: {name}}}], response: {{body: ok}}}}"
    for name in ("a", "b", "c")
)


@pytest.mark.parametrize(
    ("transitions", "example", "by"),
    [
        ("{onExample: a, set: {by: first}}, {onExample: b, set: {by: second}}", "a", "first"),
        ("{onExample: a, set: {by: first}}, {onExample: b, set: {by: second}}", "b", "second"),
        ("{onExample: a, set: {by: first}}, {onExample: b, set: {by: second}}", "c", None),
        ("{onExample: a, set: {by: first}}, {set: {by: any}}", "a", "first"),
        ("{onExample: a, set: {by: first}}, {set: {by: any}}", "c", "any"),
        ("{set: {by: any}}, {onExample: a, set: {by: late}}", "a", "any"),
    ],
)
async def test_the_first_transition_of_the_example_wins(transitions, example, by):
    mocks = stateful(f"lookupKeyTemplate: k, transitions: [{transitions}]", EXAMPLES)
    answer = await mocks.call(f"/pay/7?e={example}")
    assert (mocks.state.fields("k") or {}).get("by") == by
    assert answer.state_key == ("k" if by else "")


@pytest.mark.parametrize(
    ("before", "defaults", "change", "after"),
    [
        (None, "{}", "set: {a: x}", {"a": "x"}),
        (None, "{d: '1'}", "set: {a: x}", {"d": "1", "a": "x"}),
        ({"o": "1"}, "{d: '1'}", "set: {a: x}", {"o": "1", "a": "x"}),
        ({"a": "1", "b": "2"}, "{}", "delete: [a, none]", {"b": "2"}),
        ({"a": "1"}, "{}", "set: {b: x}, delete: [b]", {"a": "1"}),
        ({"a": "1"}, "{}", "delete: ['*']", None),
        ({"a": "1"}, "{}", "set: {b: x}, delete: ['*'], increment: {c: 1}", None),
        (None, "{d: '1'}", "delete: ['*']", None),
        ({"n": "4"}, "{}", "increment: {n: 3}", {"n": "7"}),
        ({"n": "4"}, "{}", "increment: {n: -5}", {"n": "-1"}),
        ({"n": "four"}, "{}", "increment: {n: 2}", {"n": "2"}),
        ({}, "{}", "increment: {n: 2}", {"n": "2"}),
        (None, "{n: '10'}", "increment: {n: 1}", {"n": "11"}),
        ({"n": "1"}, "{}", "set: {n: '5'}, increment: {n: 1}", {"n": "6"}),
        ({"n": "1"}, "{}", "set: {n: '5'}, delete: [n], increment: {n: 1}", {"n": "1"}),
        ({"a": "1", "b": "2"}, "{}", "set: {a: '{{state.b}}', b: '{{state.a}}'}",
         {"a": "2", "b": "1"}),
        ({"a": "1"}, "{}", "set: {}", {"a": "1"}),
    ],
)  # fmt: skip
async def test_a_change_sets_then_deletes_then_increments(before, defaults, change, after):
    mocks = stateful(f"lookupKeyTemplate: k, defaults: {defaults}, transitions: [{{{change}}}]")
    if before is not None:
        await mocks.state.change("shop", "k", "payments", version=0, fields=before)
    answer = await mocks.call("/pay/7")
    assert mocks.state.fields("k") == after
    assert answer.state_key == ("k" if (before, after) != (None, None) else "")


@pytest.mark.parametrize(
    ("text", "amount", "wanted"),
    [
        ("1", 1, "2"), ("", 1, "1"), ("-1", 1, "0"), (" 2 ", 1, "3"), ("1.5", 1, "2.5"),
        ("+1", 1, "2"), ("1_0", 1, "1"), ("1e3", 1, "1"), ("\u0661", 1, "1"), ("9" * 101, 1, "1"),
        ("9" * 100, 1, "1" + "0" * 100), ("nan", 1, "1"), ("01", 1, "2"),
    ],
)  # fmt: skip
def test_what_is_no_number_counts_zero(text, amount, wanted):
    assert increment(text, amount) == wanted


async def test_set_sees_the_record_that_is_changed_and_the_answer_the_one_before():
    """A change starts from the record at the mutation key: invariant 29."""
    mocks = stateful(
        """lookupKeyTemplate: l, mutationKeyTemplate: m, defaults: {status: new},
        transitions: [{set: {seen: '{{state.status}}', body: '{{response.body}}',
        part: '{{response.body.s}}'}}]""",
        "a: {response: {body: {s: '{{state.status}}'}}}",
    )
    await mocks.state.change("shop", "l", "payments", version=0, fields={"status": "looked up"})
    await mocks.state.change("shop", "m", "payments", version=0, fields={"status": "changed"})
    answer = await mocks.call("/pay/7")
    assert answer.body == b'{\n  "s": "looked up"\n}'
    assert mocks.state.fields("m") == {
        "status": "changed",
        "seen": "changed",
        "body": answer.body.decode(),
        "part": "looked up",
    }


async def test_conditions_and_the_answer_see_the_state_before_the_change():
    mocks = stateful(
        "lookupKeyTemplate: k, defaults: {n: '0'}, transitions: [{increment: {n: 1}}]",
        """zero: {when: [{from: state, param: n, value: '0'}], response: {body: 'z{{state.n}}'}},
        other: {response: {body: 'o{{state.n}}'}}""",
    )
    assert [(await mocks.call("/pay/7")).body for _ in range(3)] == [b"z0", b"o1", b"o2"]


async def test_response_body_is_empty_in_the_response():
    mocks = stateful(
        "lookupKeyTemplate: 'k{{response.body}}', transitions: [{set: {a: b}}]",
        "a: {response: {headers: {x: '<{{response.body}}>'}, body: 'b{{response.body}}'}}",
    )
    answer = await mocks.call("/pay/7")
    assert (answer.headers, answer.body, answer.state_key) == ((("x", "<>"),), b"b", "k")


async def test_records_belong_to_a_space_and_surfaces_of_a_suite_share_them():
    """A run does not see the shared space: invariant 29."""
    files = {
        "mock/one/set.metadata.yaml": f"spec: {{{SPEC}, state: {{lookupKeyTemplate: k,"
        " transitions: [{set: {a: b}}]}}",
        "mock/one/set.yaml": "examples: {a: {}}",
        "mock/two/get.metadata.yaml": "spec: {path: /x, state: {lookupKeyTemplate: k}}",
        "mock/two/get.yaml": "examples: {a: {response: {body: '{{state.a}}'}}}",
    }
    mocks = mocks_of(files)
    one, two = (next(iter(each.operations.values())) for each in mocks.space.surfaces.values())
    _, request = stateful("defaults: {}").request("/pay/7")
    assert (await mocks.engine.answer(one, request)).state_key == "k"
    assert (await mocks.engine.answer(two, request)).body == b"b"
    assert mocks.state.stored["shop", "k"].surface_id == "one"

    run = mocks_of(files, space="shop@run-1")
    run.engine.state = mocks.state
    other = next(iter(run.space.surfaces["two"].operations.values()))
    assert (await run.engine.answer(other, request)).body == b""


@pytest.mark.parametrize(
    ("examples", "reads"),
    [
        ("a: {response: {body: x}}", 0),
        ("a: {response: {body: '{{state.a}}'}}", 1),
        ("a: {when: [{from: state, param: a, value: b}]}", 1),
        ("a: {responseSchema: {body: {resolve: {path: state.a}}}}", 1),
        ("a: {responseSchema: {headers: {properties: {x: {template: '{{state.a}}'}}}}}", 1),
    ],
)
async def test_the_record_is_read_only_where_something_depends_on_it(examples, reads):
    mocks = stateful("lookupKeyTemplate: k", examples)
    await mocks.call("/pay/7")
    assert mocks.state.reads == reads


async def test_a_lost_race_is_repeated_on_the_new_record():
    mocks = stateful("lookupKeyTemplate: k, transitions: [{increment: {n: 1}}]")
    changed = StateInDicts.change

    class Overtaken(StateInDicts):
        times = 3

        async def change(self, space, key, surface_id, *, version, fields):
            if self.times:
                self.times -= 1
                known = self.stored.get((space, key))
                others = {"n": "10" if known is None else str(int(known.fields["n"]) + 10)}
                await changed(self, space, key, surface_id, version=version, fields=others)
            return await changed(self, space, key, surface_id, version=version, fields=fields)

    mocks.engine.state = state = Overtaken()
    assert (await mocks.call("/pay/7")).state_key == "k"
    assert state.fields("k") == {"n": "31"}


async def test_a_race_that_is_always_lost_ends_with_an_error():
    mocks = stateful("lookupKeyTemplate: k, transitions: [{increment: {n: 1}}]")

    class Contended(StateInDicts):
        async def change(self, *_args, **_options):
            return False

    mocks.engine.state = Contended()
    answer = await mocks.call("/pay/7")
    assert (answer.status, answer.error_code) == (503, "datastore_unavailable")
    assert answer.outcome is CallOutcome.ERROR


async def test_keys_and_records_are_bounded():
    mocks = stateful("lookupKeyTemplate: '{{request.rawBody}}', transitions: [{set: {a: b}}]")
    answer = await mocks.call("/pay/7", body=b"x" * (MAX_KEY + 1))
    assert (answer.status, answer.error_code) == (413, "payload_too_large")
    assert answer.outcome is CallOutcome.REJECTED
    assert (await mocks.call("/pay/7", body=b"x" * MAX_KEY)).status == 200

    mocks = stateful("lookupKeyTemplate: k, transitions: [{set: {a: '{{request.rawBody}}'}}]")
    assert (await mocks.call("/pay/7", body=b"x" * 65_535)).status == 200
    answer = await mocks.call("/pay/7", body="ä".encode() * 32_768)
    assert answer.error_code == "payload_too_large"
    assert mocks.state.fields("k") == {"a": "x" * 65_535}
