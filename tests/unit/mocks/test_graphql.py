"""Calls of GraphQL: the selection chooses the mocks and shapes the answer."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mocks.inspection.explained_calls import ExplainedCall, locate_call
from mocks.model.ports import SpaceContent
from tests.support.mock_planes import ChangingSource, planes
from tests.support.mocks import Mocks, mocks_of

SDL = """
type Query { film(id: ID!): Film  films(first: Int): [Film!]!  search(text: String): [Hit] }
type Mutation { rate(id: ID!, stars: Int!): Film }
interface Named { name: String! }
union Hit = Film | Person
type Film implements Named { id: ID! name: String! year: Int director: Person! tags: [String!]! }
type Person implements Named { name: String! born: Int }
"""
FILM = """
examples:
  one:
    when: [{from: body, param: arguments.id, value: "1"}]
    response: {body: {data: {film: {id: "1", name: Alien, year: 1979}}}}
  other:
    response: {body: {data: {film: {id: "{{request.body.arguments.id}}", name: Other}}}}
"""
SEARCH = """
examples:
  all:
    response:
      body: {data: {search: [{__typename: Person, name: Ada}, {__typename: Film, name: Alien}]}}
"""
BROKEN = """
examples:
  down: {response: {status: "503", body: {errors: [{message: down}]}}}
"""


def films() -> Mocks:
    made = mocks_of(
        {
            "api/films.graphql": SDL,
            "mock/films/film.yaml": FILM,
            "mock/films/search.yaml": SEARCH,
            "mock/films/rate.yaml": BROKEN,
        }
    )
    assert made.warnings == []
    return made


async def ask(query: object, mocks: Mocks | None = None, **more: object) -> tuple[int, object]:
    body = json.dumps({"query": query, **more}).encode()
    answer = await (mocks or films()).call(
        "/graphql", headers={"content-type": "application/json"}, body=body
    )
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize(
    ("query", "data"),
    [
        ('{ film(id: "1") { name } }', {"film": {"name": "Alien"}}),
        ('{ film(id: "7") { id name } }', {"film": {"id": "7", "name": "Other"}}),
        ('{ x: film(id: "1") { n: name } y: film(id: "2") { id } }',
         {"x": {"n": "Alien"}, "y": {"id": "2"}}),
        ('query Q { film(id: "1") { ...F } } fragment F on Film { year __typename }',
         {"film": {"year": 1979, "__typename": "Film"}}),
        ('{ film(id: "1") { ... on Named { name } } __typename }',
         {"film": {"name": "Alien"}, "__typename": "Query"}),
        ('{ search { ... on Person { name } ... on Film { name } __typename } }',
         {"search": [{"name": "Ada", "__typename": "Person"},
                     {"name": "Alien", "__typename": "Film"}]}),
        ('{ film(id: "2") { year tags director { name } } }',
         {"film": {"year": None, "tags": [], "director": {"name": "string"}}}),
        ('{ ...R } fragment R on Query { film(id: "1") { id } }', {"film": {"id": "1"}}),
        ('{ film(id: "1") { name @skip(if: true) id } }', {"film": {"id": "1"}}),
        ('{ films { name } }', {"films": [{"name": "string"}]}),
        ('{ __type(name: "Film") { name kind } }', {"__type": {"name": "Film", "kind": "OBJECT"}}),
    ],
)  # fmt: skip
async def test_the_answer_has_what_the_query_selects(query, data):
    assert await ask(query) == (200, {"data": data})


async def test_variables_and_the_name_of_an_operation_count():
    query = "query A($i: ID!) { film(id: $i) { name } } query B { film(id: 2) { name } }"
    first = await ask(query, operationName="A", variables={"i": "1"})
    assert first == (200, {"data": {"film": {"name": "Alien"}}})
    assert await ask(query, operationName="B") == (200, {"data": {"film": {"name": "Other"}}})


async def test_introspection_is_answered_by_the_schema():
    status, body = await ask("{ __schema { queryType { name } types { name } } }")
    assert status == 200
    assert isinstance(body, dict)
    assert {"name": "Film"} in body["data"]["__schema"]["types"]


@pytest.mark.parametrize(
    ("errors", "kept"), [("[{message: old}]", [{"message": "old"}]), ("7", []), ("{a: 1}", [])]
)
async def test_the_errors_of_all_examples_are_those_of_the_answer(errors, kept):
    one = "examples: {a: {response: {body: {data: {%s: null}, errors: %s}}}}"
    mocks = mocks_of(
        {
            "api/films.graphql": SDL,
            "mock/films/film.yaml": one % ("film", "[{message: other}]"),
            "mock/films/search.yaml": one % ("search", errors),
        }
    )
    query = "{ search { __typename } film(id: 1) { name } }"
    status, body = await ask(query, mocks)
    assert status == 200
    assert isinstance(body, dict)
    assert body["errors"] == [*kept, {"message": "other"}]


async def test_an_example_that_is_no_data_is_answered_as_it_is():
    answered = await ask('mutation { rate(id: "1", stars: 5) { name } }')
    assert answered == (503, {"errors": [{"message": "down"}]})


async def test_a_query_in_the_address_and_one_as_a_body_are_answered():
    mocks = films()
    surface = mocks.surface
    assert surface.route("GET", "/graphql") is not None
    answer = await mocks.call(
        "/graphql", headers={"content-type": "application/graphql"}, body=b'{film(id:"1"){name}}'
    )
    assert json.loads(answer.body) == {"data": {"film": {"name": "Alien"}}}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("{ film(id: 1) { nme } }", "Did you mean 'name'"),
        ("{ film { name } }", "of type 'ID!' is required"),
        ("{ film(id: 1", "Syntax Error"),
        ("{ nothing }", "Cannot query field 'nothing'"),
        ("query A { films { name } } query B { films { name } }", "name one by operationName"),
        ("{ films " + "{ director " * 30 + "}" * 31, "more than 20 levels"),
        ("{ films { " + "name " * 600 + "} }", "more than 500 fields"),
        ("{ " + " ".join(f"a{n}: films {{ name }}" for n in range(30)) + " }", "20 root fields"),
        ("query($x: ID!) { film(id: $x) { name } }", "Variable '$x' has invalid value"),
    ],
)  # fmt: skip
async def test_a_wrong_query_has_errors_as_servers_have_them(query, says):
    status, body = await ask(query)
    assert status == 200
    assert isinstance(body, dict)
    assert says in body["errors"][0]["message"], body


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"query": 3}', b"\xff"])
async def test_a_body_without_a_query_is_400(body):
    answer = await films().call("/graphql", body=body)
    assert (answer.status, answer.media_type) == (400, "application/json")
    assert "not JSON with a query" in json.loads(answer.body)["errors"][0]["message"]


async def test_fragments_that_multiply_are_refused_soon():
    spreads = " ".join(
        f"fragment F{n} on Film {{ {f'...F{n + 1} ' * 8} }}" for n in range(12)
    ) + " fragment F12 on Film { name }"  # fmt: skip
    begin = time.process_time()
    status, body = await ask("{ films { ...F0 } } " + spreads)
    assert status == 200
    assert "errors" in body  # type: ignore[operator]
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("query", "operation"),
    [
        ('{ film(id: "1") { name } }', "film"),
        ("{ search { __typename } }", "search"),
        ("{", "film"),
    ],
)
def test_explain_finds_the_operation_of_the_first_root_field(query, operation):
    call = ExplainedCall(surface_id="films", method="POST", path="/graphql", body={"query": query})
    found, request = locate_call(films().space, call)
    assert found.operation.operation_id == operation
    assert operation != "film" or query == "{" or request.body["arguments"] == {"id": "1"}


async def test_the_plane_names_the_operation_that_the_query_chose():
    content = SpaceContent(
        suite_id="orders", title="", repository="", generation="1",
        surfaces=films().space.content.surfaces, files=films().space.content.files,
    )  # fmt: skip
    source = ChangingSource()
    source.contents = {"orders": content}
    found = {"search": [{"__typename": "Person"}, {"__typename": "Film"}]}
    async with planes(source) as mocks:
        for method, more in (
            ("POST", {"json": {"query": "{ search { __typename } }"}}),
            ("GET", {"params": {"query": "{ search { __typename } }"}}),
        ):
            answer = await mocks.ask(method, "/mocks/rest/orders/films/graphql", **more)
            assert (answer.status_code, answer.json()) == (200, {"data": found})
            assert answer.headers["x-partita-mock-resolver-url"].endswith("/films/search")
            assert answer.headers["x-partita-mock-example"] == "all"
        named = await mocks.ask(  # a gateway knows the address, not the query
            "POST",
            "/internal/mock-data/orders/films/film",
            json={"query": "{ search { __typename } }"},
        )
        resolved = named.json()
        assert json.loads(resolved["body"]) == {"data": found}
        assert resolved["resolverUrl"].endswith("/films/search")
        assert mocks.journal.newest("orders")[0].operation_id == "search"


WORDS = st.sampled_from(
    ["{", "}", "film", "films", "(id: 1)", "name", "...", "on Film", "query", "fragment F on Film",
     "$x", ":", "@skip(if: true)", "__typename", "__schema", "F", "mutation", '"', "[", "\x00"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(words=st.lists(WORDS, max_size=14), variables=st.sampled_from([{}, [], 3, "x", {"x": 1}]))
def test_any_text_is_answered(words, variables):
    status, _ = asyncio.run(ask(" ".join(words), variables=variables))
    assert status in (200, 404)
