"""Calls that break their contract: told, refused or let be (reference: control-plane 18.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from mocks.engine.documents import call_document
from mocks.engine.engine import Engine
from mocks.inspection.explained_calls import ExplainedCall, locate_call
from mocks.inspection.explanation import explain
from mocks.model.ports import ProxyAnswer, SpaceContent
from surfaces import surfaces_of
from tests.support.mock_planes import ChangingSource, Planes, planes
from tests.support.mocks import ProxyAnswers

HEADER = "x-partita-mock-contract"
CONTRACT = """
openapi: 3.0.3
info: {title: Shop, version: "1"}
components:
  securitySchemes: {token: {type: http, scheme: bearer}}
paths:
  /items:
    get:
      operationId: listItems
      parameters:
        - {name: limit, in: query, schema: {type: integer, maximum: 100}}
        - {name: kind, in: query, schema: {enum: [a, b]}}
      responses: {"200": {content: {application/json: {example: []}}}}
    post:
      operationId: addItem
      security: [{token: []}]
      requestBody:
        required: true
        content:
          application/json:
            schema: {type: object, required: [id], properties: {id: {type: integer}}}
      responses: {"201": {content: {application/json: {example: {id: 1}}}}, "400": {}}
  /free:
    get: {operationId: free, responses: {"200": {content: {application/json: {example: {}}}}}}
  /passed:
    get:
      operationId: passed
      responses: {"200": {content: {application/json: {schema: {type: array}}}}}
"""
PASSED = "spec: {fallback: {mode: proxy, proxyUrl: 'http://other.test/'}}"
FILES = {"api/shop.yaml": CONTRACT, "mock/shop/passed.metadata.yaml": PASSED}


def _source(**more: str) -> ChangingSource:
    files = {path: text.encode() for path, text in {**FILES, **more}.items()}
    surfaces, warnings = surfaces_of(files, suite_id="orders", base_url="http://mocks.test")
    assert not warnings
    source = ChangingSource()
    source.contents["orders"] = SpaceContent(
        suite_id="orders", title="", repository="", generation="1", surfaces=surfaces, files=files
    )
    return source


async def _ask(made: Planes, method: str, path: str, **more: Any) -> httpx.Response:
    return await made.ask(method, f"/mocks/rest/orders/shop{path}", **more)


def _entry(made: Planes) -> Mapping[str, Any]:
    return call_document(made.journal.newest("orders")[0])


async def test_a_wrong_call_is_answered_and_told_by_a_header_and_the_journal():
    async with planes(_source()) as made:
        right = await _ask(made, "GET", "/items?limit=100")
        assert HEADER not in right.headers
        assert "contractErrors" not in _entry(made)

        wrong = await _ask(made, "GET", "/items?limit=101&kind=c")
        assert (wrong.status_code, wrong.json()) == (200, [])
        told = wrong.headers[HEADER]
        assert told == "invalid; /query/limit: must be ≤ 100 (and 1 more)"
        assert _entry(made)["outcome"] == "example"
        assert _entry(made)["contractErrors"] == [
            {"pointer": "/query/limit", "code": "invalid_value", "detail": "must be ≤ 100"},
            {"pointer": "/query/kind", "code": "invalid_value",
             "detail": "must be one of the enum"},
        ]  # fmt: skip


@pytest.mark.parametrize("mode", ["off", "warn", "enforce"])
async def test_a_right_call_gets_its_ready_answer_and_a_wrong_one_does_not(
    mode: str, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    answer = Engine.answer

    async def noted_answer(engine: Engine, operation: Any, request: Any) -> Any:
        asked.append(request.path + request.raw_query)
        return await answer(engine, operation, request)

    async with planes(_source(), checks={"validate": mode}) as made:
        for path in ("/free", "/items"):
            assert (await _ask(made, "GET", path)).status_code == 200
        monkeypatch.setattr(Engine, "answer", noted_answer)

        for path in ("/free?x=1", "/items?limit=1"):
            assert (await _ask(made, "GET", path)).status_code == 200
        assert not asked, "these are ready"
        wrong = await _ask(made, "GET", "/items?limit=x")
        assert (wrong.status_code, HEADER in wrong.headers) == (
            422 if mode == "enforce" else 200,
            mode != "off",
        )
        assert asked == ([] if mode == "off" else ["/itemslimit=x"])


@pytest.mark.parametrize(
    ("call", "status", "pointer"),
    [
        ({}, 401, "/header/Authorization"),
        ({"headers": {"authorization": "Bearer x"}}, 400, "/body"),
        (
            {"headers": {"authorization": "Bearer x"}, "json": {"id": "x"}},
            400,
            "/body/id",
        ),
        (
            {"headers": {"authorization": "Bearer x", "content-type": "a/b"}, "content": b"x"},
            415,
            "/header/Content-Type",
        ),
    ],
)
async def test_enforced_a_wrong_call_is_refused_with_a_problem_document(
    call: dict[str, Any], status: int, pointer: str
):
    async with planes(_source(), checks={"validate": "enforce"}) as made:
        answer = await _ask(made, "POST", "/items", **call)

        document = answer.json()
        assert (answer.status_code, document["status"]) == (status, status)
        assert answer.headers["content-type"] == "application/problem+json"
        assert document["code"] == "mock_contract_violation"
        assert document["errors"][0]["pointer"] == pointer
        assert answer.headers[HEADER].startswith(f"invalid; {pointer}")
        assert ("www-authenticate" in answer.headers) is (status == 401)
        assert _entry(made)["outcome"] == "rejected"
        assert _entry(made)["contractErrors"][0]["pointer"] == pointer
        assert "x" not in document["errors"][0]["detail"].split()

        right = await _ask(
            made, "POST", "/items", headers={"authorization": "Bearer x"}, json={"id": 1}
        )
        assert right.status_code == 201


MODES = {
    "suite": {"metadata.yaml": "mocks: {validate: enforce}"},
    "wrapped": {"metadata.yaml": "kind: Suite\nspec: {mocks: {validate: enforce}}"},
    "surface": {
        "metadata.yaml": "mocks: {validate: off}",
        "mock/shop/all.metadata.yaml": "kind: MockSurface\nspec: {validate: enforce}",
    },
    "named surface": {
        "mock/x.metadata.yaml": "kind: MockSurface\nmetadata: {surface: shop}\n"
        "spec: {validate: enforce}"
    },
    "operation": {
        "mock/shop/all.metadata.yaml": "kind: MockSurface\nspec: {validate: off}",
        "mock/shop/listItems.metadata.yaml": "spec: {validate: enforce}",
    },
}


@pytest.mark.parametrize("name", MODES)
async def test_the_nearest_file_says_how_calls_are_checked(name: str):
    async with planes(_source(**MODES[name]), checks={"validate": "off"}) as made:
        assert (await _ask(made, "GET", "/items?limit=x")).status_code == 422

    forced = {"validate": "warn", "validate_always": "off"}
    async with planes(_source(**MODES[name]), checks=forced) as made:
        answer = await _ask(made, "GET", "/items?limit=x")
        assert (answer.status_code, HEADER in answer.headers) == (200, False)


@pytest.mark.parametrize("mode", ["warn", "enforce"])
async def test_a_body_that_is_here_is_checked_before_its_ready_answer(mode: str):
    """Early, a right body gets the ready answer, too; a wrong one goes to the engine."""
    token = {"Authorization": "Bearer a"}
    async with planes(_source(), asks_early=True, checks={"validate": mode}) as made:
        for body in ({"id": 1}, {"id": 2}):
            right = await _ask(made, "POST", "/items", json=body, headers=token)
            assert (right.status_code, HEADER in right.headers) == (201, False)
        assert made.early.answered == 1  # the first call has made the surface known
        wrong = await _ask(made, "POST", "/items", json={"id": "x"}, headers=token)
        anonymous = await _ask(made, "POST", "/items", json={"id": 1})

    refused = mode == "enforce"
    assert (wrong.status_code, HEADER in wrong.headers) == (400 if refused else 201, True)
    assert (anonymous.status_code, HEADER in anonymous.headers) == (401 if refused else 201, True)
    assert [each.status for each in made.journal.newest("orders")][2:] == [201, 201]


def test_a_mode_that_does_not_exist_is_a_warning_with_what_was_meant():
    files = {
        "metadata.yaml": "mocks: {validate: enforced}",
        "mock/shop/s.metadata.yaml": "kind: MockSurface\nspec: {validate: warm, valid: 1}",
        "mock/shop/listItems.metadata.yaml": "spec: {validate: of}",
    }
    encoded = {path: text.encode() for path, text in {**FILES, **files}.items()}
    _, warnings = surfaces_of(encoded, suite_id="orders", base_url="http://mocks.test")

    assert [(each.code, each.file, each.detail.rpartition("; ")[2]) for each in warnings] == [
        ("unknown_value", "metadata.yaml", "did you mean enforce?"),
        ("unknown_key", "mock/shop/s.metadata.yaml", "did you mean validate?"),
        ("unknown_value", "mock/shop/s.metadata.yaml", "did you mean warn?"),
        ("unknown_value", "mock/shop/listItems.metadata.yaml", "did you mean off?"),
    ]


@pytest.mark.parametrize("mode", ["off", "warn", "enforce"])
async def test_another_method_of_a_path_is_405_with_allow(mode: str):
    async with planes(_source(), checks={"validate": mode}) as made:
        answer = await _ask(made, "PATCH", "/items")
        assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
        assert answer.headers["allow"] == "GET, HEAD, POST, OPTIONS"
        assert (await _ask(made, "HEAD", "/items")).status_code == 200
        assert (await _ask(made, "PATCH", "/nowhere")).status_code == 404


async def test_constraints_refuse_as_without_a_contract():
    spec = "spec: {parameterConstraints: [{name: limit, required: true, pattern: '^9'}]}"
    source = _source(**{"mock/shop/listItems.metadata.yaml": spec})
    async with planes(source, checks={"validate": "enforce"}) as made:
        answer = await _ask(made, "GET", "/items?limit=x")

        assert (answer.status_code, answer.json()["code"]) == (400, "mock_constraint_failed")
        assert HEADER in answer.headers


async def test_an_answer_of_a_proxy_is_checked():
    proxy = ProxyAnswers(
        answer=ProxyAnswer(status=200, media_type="application/json", headers=(), body=b"{}")
    )
    async with planes(_source(), proxy=proxy) as made:
        answer = await _ask(made, "GET", "/passed")

        assert (answer.status_code, answer.json()) == (200, {})
        assert answer.headers[HEADER] == "invalid; /response/body: must be array"
        assert _entry(made)["contractErrors"][0]["pointer"] == "/response/body"


async def test_explain_says_what_is_wrong_with_a_call():
    async with planes(_source()) as made:
        await _ask(made, "GET", "/free")
        space = made.spaces.get("orders", 0.0)
        assert space is not None
        call = ExplainedCall(surface_id="shop", method="GET", path="/items?limit=x")

        found = await explain(made.engine, *locate_call(space.compiled, call))

        assert [each["pointer"] for each in found["contractErrors"]] == ["/query/limit"]
        assert found["response"]["status"] == 200


async def test_no_example_sets_the_header_and_a_gateway_learns_what_is_wrong():
    example = "examples: {a: {response: {headers: {X-Partita-Mock-Contract: no}, body: [1]}}}"
    async with planes(_source(**{"mock/shop/listItems.yaml": example})) as made:
        assert HEADER not in (await _ask(made, "GET", "/items")).headers

        path = "/internal/mock-data/orders/shop/listItems"
        document = (await made.ask("GET", f"{path}?limit=x")).json()
        assert document["status"] == 200
        assert document["contractErrors"][0]["pointer"] == "/query/limit"
