"""Mocks against simple references: the choice, routes, templates, and state under concurrency."""

from __future__ import annotations

import asyncio
import json
import random
from contextvars import ContextVar

from hypothesis import given, settings
from hypothesis import strategies as st

from mocks.engine.routes import Routes
from mocks.model.calls import MockRequest
from mocks.state.memory import MemoryState
from mocks.templates.scope import Names, Scope
from mocks.templates.templates import BodyTemplate, TextTemplate
from tests.support.mocks import mock_of, mocks_of

BOUNDED = settings(max_examples=50, deadline=None)
PLACES = [("query", "a"), ("query", "b"), ("header", "X-A"), ("body", "n.m"), ("state", "s")]
CONDITIONS = st.tuples(st.sampled_from(PLACES), st.sampled_from(["0", "1"]))
FILES = st.lists(st.lists(CONDITIONS, max_size=4), max_size=8)
VALUES = st.fixed_dictionaries({place: st.sampled_from(["0", "1", None]) for place in PLACES})


def naive_matches(file, values) -> list[int]:
    return [
        number
        for number, when in enumerate(file)
        if all(values[place] is not None and values[place] == value for place, value in when)
    ]


def naive_best(file, values) -> int | None:
    matches = naive_matches(file, values)
    return max(matches, key=lambda number: (len(set(file[number])), -number), default=None)


def examples_of(file) -> str:
    return json.dumps(
        {
            f"e{number}": {
                "when": [
                    {"from": source, "param": param, "value": value}
                    for (source, param), value in when
                ],
                "response": {"body": f"e{number}"},
            }
            for number, when in enumerate(file)
        }
    )[1:-1]


async def answered(mocks, values) -> list[str]:
    query = "&".join(
        f"{name}={values['query', name]}" for name in "ab" if values["query", name] is not None
    )
    header, body, state = values["header", "X-A"], values["body", "n.m"], values["state", "s"]
    if state is not None and not mocks.state.stored:
        await mocks.state.change("shop", "k", "payments", version=0, fields={"s": state})
    names = []
    for _ in range(3):
        answer = await mocks.call(
            f"/pay?{query}",
            headers={} if header is None else {"x-a": header},
            body=b"" if body is None else b'{"n": {"m": %s}}' % body.encode(),
        )
        names.append(answer.example)
    return names


@BOUNDED
@given(file=FILES, values=VALUES)
def test_the_best_match_is_that_of_a_simple_search_and_always_the_same(file, values):
    spec = "path: /pay, method: POST, state: {lookupKeyTemplate: k}"
    best = naive_best(file, values)
    expected = "" if best is None else f"e{best}"
    for _ in range(2):
        found = asyncio.run(answered(mock_of(spec, examples_of(file)), values))
        assert found == [expected] * 3


@BOUNDED
@given(file=FILES, values=VALUES)
def test_sequence_goes_through_all_matches_of_a_simple_search(file, values):
    spec = "path: /pay, method: POST, dispatcher: sequence, state: {lookupKeyTemplate: k}"
    matches = naive_matches(file, values)
    expected = [f"e{matches[n % len(matches)]}" if matches else "" for n in range(3)]
    assert asyncio.run(answered(mock_of(spec, examples_of(file)), values)) == expected


SEGMENTS = st.sampled_from(["a", "b", "{x}", "a{x}"])
TEMPLATES = st.lists(st.lists(SEGMENTS, min_size=1, max_size=4), max_size=10)
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "c", "a-b", ""]), min_size=1, max_size=4)


def naive_segment(template: str, segment: str) -> list[str] | None:
    if "{" not in template:
        return [] if template == segment else None
    if template == "{x}":
        return [segment] if segment else None
    return [segment[1:]] if segment.startswith("a") and len(segment) > 1 else None


def naive_route(templates, path) -> tuple[int, list[str]] | None:
    found = []
    for number, template in enumerate(templates):
        values = [naive_segment(*each) for each in zip(template, path, strict=False)]
        if len(template) == len(path) and None not in values:
            weights = [0 if "{" not in each else 2 if each == "{x}" else 1 for each in template]
            found.append((weights, number, [each for value in values for each in value or []]))
    return min(found)[1:] if found else None


@BOUNDED
@given(templates=TEMPLATES, paths=st.lists(PATHS, max_size=5))
def test_the_trie_finds_what_a_simple_search_finds(templates, paths):
    routes: Routes[int] = Routes()
    for number, template in enumerate(templates):
        named = [each.replace("x", f"x{at}") for at, each in enumerate(template)]
        routes.add("GET", "/" + "/".join(named), number)
    for path in paths:
        found = routes.find("GET", "/" + "/".join(path))
        expected = naive_route(templates, path)
        assert (None if found is None else (found[0], list(found[1].values()))) == expected


@BOUNDED
@given(value=st.text(alphabet="{}|'\"ab. request.method\\", max_size=30))
def test_a_rendered_value_is_never_rendered_again(value):
    names = Names(suite={"id": value}, operation={}, execution={})
    scope = Scope(MockRequest("GET", "/", query={"q": value}), {"s": value}, "", random.Random(1))
    text = "{{request.query.q}}|{{state.s}}|{{suite.id}}"
    assert TextTemplate(text, names).render(scope) == f"{value}|{value}|{value}"
    body = BodyTemplate(json.dumps({"v": text}), names).render(scope)
    assert json.loads(body) == {"v": f"{value}|{value}|{value}"}


@BOUNDED
@given(text=st.text(alphabet="{}|'\"ab.[]0 /\n", max_size=60))
def test_any_text_is_a_template_and_what_is_left_was_there(text):
    names = Names(suite={}, operation={}, execution={})
    scope = Scope(MockRequest("GET", "/"), {}, "", random.Random(1))
    template = TextTemplate(text, names)
    rendered = template.render(scope)
    assert len(rendered) <= len(text)
    assert "{{" in text or rendered == text


# ------------------------------------------------------------ state
STATEFUL = {
    "mock/s/pay.metadata.yaml": """spec:
      method: POST
      path: /pay
      state:
        lookupKeyTemplate: "{{request.query.k}}"
        defaults: {n: "10"}
        transitions:
          - {onExample: add, set: {before: "{{state.last}}", last: "{{request.query.c}}"},
             increment: {n: 1, total: 5}}
          - {onExample: drop, delete: [last], increment: {n: -3}}
          - {onExample: gone, delete: ["*"]}
          - {onExample: other, mutationKeyTemplate: both, increment: {n: 1}}
    """,
    "mock/s/pay.yaml": "examples: {"
    + ", ".join(
        f"{name}: {{when: [{{from: query, param: e, value: {name}}}]}}"
        for name in ("add", "drop", "gone", "other", "look")
    )
    + "}",
}
CALL = ContextVar("call", default=("", "", ""))


class OrderedState(MemoryState):
    """Lets other calls run before and after each answer, and keeps the order of the changes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.races = random.Random(seed)
        self.order: list[tuple[str, str, str]] = []

    async def others(self) -> None:
        for _ in range(self.races.randrange(3)):
            await asyncio.sleep(0)

    async def read(self, space, key):
        await self.others()
        found = await super().read(space, key)
        await self.others()
        return found

    async def change(self, space, key, surface_id, *, version, fields):
        await self.others()
        changed = await super().change(space, key, surface_id, version=version, fields=fields)
        if changed:
            self.order.append(CALL.get())
        return changed


def replayed(order) -> dict[str, dict[str, str]]:
    """Return the records after calls that come one after the other."""
    records: dict[str, dict[str, str]] = {}
    for example, looked_up, call in order:
        key = "both" if example == "other" else looked_up
        record = dict(records.get(key, {"n": "10"}))
        if example == "gone":
            records.pop(key, None)
            continue
        if example == "add":
            record["before"], record["last"] = record.get("last", ""), call
            record["total"] = str(int(record.get("total", "0")) + 5)
        if example == "drop":
            record.pop("last", None)
        amounts = {"add": 1, "drop": -3, "other": 1}
        record["n"] = str(int(record["n"]) + amounts[example])
        records[key] = record
    return records


CALLS = st.tuples(
    st.sampled_from(["add", "add", "drop", "gone", "other", "look"]), st.sampled_from(["k", "l"])
)


@BOUNDED
@given(clients=st.lists(st.lists(CALLS, max_size=4), min_size=8, max_size=8), seed=st.integers())
def test_state_is_that_of_calls_one_after_the_other_whatever_8_clients_do(clients, seed):
    """No change is lost or made twice: invariant 29."""
    mocks = mocks_of(STATEFUL)
    state = mocks.engine.state = OrderedState(seed)
    changed = []

    async def client(number: int, calls) -> None:
        for count, (example, key) in enumerate(calls):
            call = f"{number}.{count}"
            CALL.set((example, key, call))
            answer = await mocks.call(f"/pay?e={example}&k={key}&c={call}")
            assert answer.error_code == ""
            if answer.state_key:
                changed.append((example, key, call))

    async def all_clients() -> None:
        await asyncio.gather(*(client(number, calls) for number, calls in enumerate(clients)))

    asyncio.run(all_clients())
    assert sorted(state.order) == sorted(changed), "each change is made once"
    found = {each.key: dict(each.fields) for each in asyncio.run(state.records("shop"))}
    assert found == replayed(state.order)


@BOUNDED
@given(seed=st.integers())
def test_8_clients_draw_each_number_once(seed):
    """No draw is lost: invariant 29."""
    mocks = mock_of(
        "path: /pay, method: POST, dispatcher: sequence",
        ", ".join(f"e{number}: {{}}" for number in range(40)),
    )
    mocks.state.races = random.Random(seed)

    async def client() -> list[str]:
        return [(await mocks.call("/pay")).example for _ in range(5)]

    async def all_clients() -> list[list[str]]:
        return await asyncio.gather(*(client() for _ in range(8)))

    drawn = [name for names in asyncio.run(all_clients()) for name in names]
    assert sorted(drawn) == sorted(f"e{number}" for number in range(40))
