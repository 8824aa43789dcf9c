"""What operations answer that have a contract and no mock (reference: control-plane 6.2)."""

from __future__ import annotations

import base64
import json
import random
import threading
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surfaces import examples_of
from surfaces.contract_examples.pattern_samples import matcher, matching
from surfaces.contract_examples.schema_checks import Checks, problems
from surfaces.contract_examples.schema_samples import SchemaSampler
from surfaces.json_documents import JsonDocuments, Located
from surfaces.mock_lint import lint_mocks
from surfaces.model import Exchange
from surfaces.xml_bodies import quote_attribute, read_xml
from tests.support.surfaces import BASE, hydrated

OBJECT = {"type": "object", "properties": {"id": {"type": "integer", "minimum": 5}}}


def _document(operation: Any, path: str = "/a/{id}", version: str = "3.0.3", **rest: Any) -> str:
    return json.dumps({"openapi": version, "paths": {path: operation}, **rest})


def _examples(document: str, **more: str) -> tuple[Exchange, ...]:
    found = hydrated({"api/shop.json": document, **{f"api/{k}.yaml": v for k, v in more.items()}})
    (surface,) = found.typed
    (operation,) = surface.operations
    assert operation.exchanges == ()
    return examples_of(operation)


def _get(**responses: Any) -> dict[str, Any]:
    return {"get": {"responses": {key.strip("_"): each for key, each in responses.items()}}}


def _json(**media: Any) -> dict[str, Any]:
    return {"description": "", "content": {"application/json": media}}


def _when(exchange: Exchange) -> list[tuple[str, str, str]]:
    return [(each.source, each.param, each.value) for each in exchange.when]


def _asked(exchange: Exchange) -> tuple[str, str] | None:
    """What a caller asks for to get the example, None where it answers by itself."""
    declared = exchange.declared
    assert declared is not None
    return (declared.response, declared.example) if declared.is_on_request else None


def test_the_first_2xx_response_answers_and_the_others_are_asked_for_by_status():
    found = _examples(
        _document(
            _get(
                _404=_json(schema={"type": "object", "properties": {"code": {"type": "string"}}}),
                _201=_json(schema=OBJECT),
                default=_json(example={"oops": True}),
                _3XX={"description": "", "headers": {"Location": {"example": "/b"}}},
            )
        )
    )

    assert [(each.name, each.status, _asked(each)) for each in found] == [
        ("201", "201", None),
        ("500", "500", ("default", "example")),
        ("404", "404", ("404", "")),
        ("300", "300", ("3XX", "")),
    ]
    assert all(_when(each) == [] for each in found)
    assert json.loads(found[0].response.body or "") == {"id": 5}
    assert json.loads(found[1].response.body or "") == {"oops": True}
    assert (found[3].response.body, found[3].media_type) == (None, "")
    assert found[3].response.headers == {"Location": "/b"}


def test_named_examples_are_paired_with_those_of_the_request():
    parameters = [
        {"name": "id", "in": "path", "examples": {"cat": {"value": 1}, "dog": {"value": "2"}}},
        {"name": "x-lang", "in": "header", "examples": {"dog": {"value": "de"}}},
    ]
    body = {"examples": {"dog": {"value": {"kind": {"name": "d"}, "n": 2, "tags": ["x"]}}}}
    answer = _json(
        examples={"cat": {"value": {"a": 1}}, "dog": {"$ref": "#/components/examples/d"},
                  "any": {"value": {"a": 3}}}
    )  # fmt: skip
    found = _examples(
        _document(
            {"parameters": parameters,
             "put": {"requestBody": {"content": {"application/json": body}},
                     "responses": {"200": answer}}},
            components={"examples": {"d": {"value": {"a": 2}}}},
        )
    )  # fmt: skip

    by_name = {each.name: each for each in found}
    assert list(by_name) == ["any", "cat", "dog"]
    assert [_asked(each) for each in found] == [None] * 3
    assert _when(by_name["any"]) == []
    assert _when(by_name["cat"]) == [("path", "id", "1")]
    assert _when(by_name["dog"]) == [
        ("path", "id", "2"), ("header", "x-lang", "de"),
        ("body", "kind.name", "d"), ("body", "n", "2"),
    ]  # fmt: skip
    assert json.loads(by_name["dog"].response.body or "") == {"a": 2}
    assert by_name["dog"].request.headers == {"x-lang": "de"}


def test_a_request_like_no_example_gets_the_first_one():
    parameters = [{"name": "id", "in": "path", "examples": {"cat": {"value": 1}}}]
    operation = {"get": {"parameters": parameters, "responses": {
        "200": _json(examples={"cat": {"value": {"a": 1}}})}}}  # fmt: skip

    first = _examples(_document(operation))[0]

    assert (first.name, _when(first), json.loads(first.response.body or "")) == (
        "200",
        [],
        {"a": 1},
    )


def test_headers_have_their_examples_and_never_those_of_the_connection():
    headers = {
        "X-Rate": {"schema": {"type": "integer", "minimum": 10}},
        "X-Trace": {"example": "a\r\nb"},
        "X-List": {"schema": {"type": "array", "items": {"type": "integer"}, "example": [1, 2]}},
        "Content-Length": {"example": "7"},
        "Transfer-Encoding": {"example": "chunked"},
    }
    (found,) = _examples(_document(_get(_200={"description": "", "headers": headers})))
    assert found.response.headers == {"X-Rate": "10", "X-Trace": "a b", "X-List": "1,2"}


def test_braces_of_other_languages_stay_and_templates_of_partita_work():
    text = "Hi {{name}}, {{{x}}} and {{ request.path.id }}"
    (found, *_) = _examples(_document(_get(_200=_json(example={"text": text}))))
    body = json.loads(found.response.body or "")["text"]
    assert body == "Hi {{'{{'}}name}}, {{'{{'}}{x}}} and {{ request.path.id }}"


def test_references_lead_to_other_files_and_round_in_circles():
    node = "{type: object, required: [v], properties: {v: {type: string}, next: {$ref: '#/Node'}}}"
    (found,) = _examples(
        _document(_get(_200=_json(schema={"$ref": "shared.yaml#/Node"}))), shared=f"Node: {node}"
    )
    assert json.loads(found.response.body or "") == {"v": "string"}


def test_what_only_requests_have_is_not_in_a_response():
    schema = {
        "type": "object",
        "required": ["secret", "id"],
        "properties": {"secret": {"type": "string", "writeOnly": True},
                       "id": {"type": "string", "readOnly": True}},
    }  # fmt: skip
    (found,) = _examples(_document(_get(_200=_json(schema=schema))))
    assert json.loads(found.response.body or "") == {"id": "string"}


def test_other_media_types():
    def of(kind: str, **media: Any) -> tuple[str, str | bytes | None]:
        answer = {"description": "", "content": {kind: media}}
        (found, *_) = _examples(_document(_get(_200=answer)))
        message = found.response
        return found.media_type, message.content if message.body is None else message.body

    tags = {"type": "array", "xml": {"wrapped": True}, "items": {"type": "string"}}
    xml = {"type": "object", "xml": {"name": "pet"}, "properties": {
        "id": {"type": "integer", "xml": {"attribute": True}}, "tags": tags}}  # fmt: skip
    assert of("text/plain", example="hello") == ("text/plain", "hello")
    assert of("*/*", schema={"type": "string"}) == ("text/plain", "string")
    assert of("*/*", schema=OBJECT)[0] == "application/json"
    kind, picture = of("image/*", schema={"type": "string", "format": "binary"})
    assert (kind, picture[:8] if picture else "") == ("image/png", b"\x89PNG\r\n\x1a\n")
    assert of("application/octet-stream", example="a b") == ("application/octet-stream", "a b")
    assert of("image/gif", example="R0lGODlhAQABAAA=") == (
        "image/gif", base64.b64decode("R0lGODlhAQABAAA=")
    )  # fmt: skip
    encoded = {"type": "string", "contentEncoding": "base64", "example": "/wA="}
    assert of("application/x-own", schema=encoded) == ("application/x-own", b"\xff\0")
    assert of("application/xml", schema=xml, example={"id": 5, "tags": []})[1] == (
        '<?xml version="1.0" encoding="UTF-8"?><pet id="5"><tags></tags></pet>'
    )
    assert of("application/xml", schema=xml)[1] == (
        '<?xml version="1.0" encoding="UTF-8"?><pet id="1"><tags><tags>string</tags></tags></pet>'
    )
    assert of("text/event-stream", schema={"type": "object", "example": {"a": 1}})[1] == (
        'data: {"a": 1}\n\n'
    )


def test_a_mock_with_examples_or_a_fallback_decides_alone():
    files = {
        "api/shop.json": _document(_get(_200=_json(example={"of": "contract"})), path="/a"),
        "mock/shop/get-a.metadata.yaml": "spec: {method: GET, path: /a}",
    }

    def answers(**more: str) -> tuple[Exchange, ...]:
        found = hydrated({**files, **{f"mock/shop/get-a.{k}.yaml": v for k, v in more.items()}})
        (surface,) = found.typed
        return examples_of(surface.operations[0])

    assert [each.name for each in answers()] == ["example"]
    own = {"mock/shop/get-a.yaml": "examples: {mine: {response: {body: {}}}}"}
    (surface,) = hydrated({**files, **own}).typed
    assert [each.name for each in examples_of(surface.operations[0])] == ["mine"]
    falls_back = "spec: {method: GET, path: /a, fallback: {status: '503'}}"
    assert answers(metadata=falls_back) == ()


def test_asyncapi_messages_have_their_examples_or_a_sample():
    document = """
asyncapi: 3.0.0
channels:
  orders:
    messages:
      placed:
        name: placed
        payload: {type: object, properties: {id: {type: string, format: uuid}}}
        examples: [{name: first, headers: {x: 1}, payload: {id: a}}, {payload: {id: b}}]
      paid: {payload: {type: object, required: [n], properties: {n: {type: integer}}}}
operations:
  onOrder: {action: receive, channel: {$ref: '#/channels/orders'}}
"""
    (surface,) = hydrated({"api/events.yaml": document}).typed
    found = examples_of(surface.operations[0])
    assert [(each.name, json.loads(each.response.body or ""), _when(each)) for each in found] == [
        ("first", {"id": "a"}, []),
        ("placed", {"id": "b"}, []),
        ("sample", {"n": 1}, []),
    ]
    assert found[0].response.headers == {"x": "1"}


def test_asyncapi_2_has_them_as_well():
    document = """
asyncapi: 2.6.0
channels:
  orders:
    subscribe:
      operationId: onOrder
      message: {oneOf: [{payload: {type: string, enum: [a, b]}}, {payload: {type: integer}}]}
"""
    (surface,) = hydrated({"api/events.yaml": document}).typed
    assert [each.response.body for each in examples_of(surface.operations[0])] == ["a", "1"]


@pytest.mark.slow
def test_grpc_and_graphql_answer_with_samples():
    proto = """syntax = "proto3"; package pay;
    service Pay { rpc Charge(Order) returns (Receipt); }
    message Order { string id = 1; }
    message Receipt { string receipt_id = 1; repeated State states = 2; Receipt before = 3; }
    enum State { UNKNOWN = 0; PAID = 1; }"""
    sdl = """type Query { user(id: ID!): User! } interface Named { name: String }
    type User implements Named { name: String role: Role friends: [User!]! }
    enum Role { ADMIN USER }"""
    found = {
        surface.protocol: [examples_of(each) for each in surface.operations]
        for surface in hydrated({"api/pay.proto": proto, "api/users.graphql": sdl}).typed
    }
    ((grpc,),), ((graphql,),) = found["gRPC"], found["GraphQL"]
    receipt = json.loads(grpc.response.body or "")
    assert (receipt["receiptId"], receipt["states"]) == ("string", ["UNKNOWN"])
    user = json.loads(graphql.response.body or "")["data"]["user"]
    assert (user["__typename"], user["name"], user["role"]) == ("User", "string", "ADMIN")


def test_thousands_of_operations_cost_nothing_before_the_first_call(monkeypatch):
    paths = {f"/{n}": {"get": {"responses": {"200": _json(schema=OBJECT)}}} for n in range(2_000)}
    made: list[int] = []
    monkeypatch.setattr(SchemaSampler, "value", lambda *_: made.append(1))
    (surface,) = hydrated({"api/x.json": json.dumps({"openapi": "3.0.0", "paths": paths})}).typed
    assert (len(surface.operations), made) == (2_000, [])
    examples_of(surface.operations[7])
    assert len(made) == 1


def test_examples_may_be_made_on_several_threads():
    schema = {"type": "array", "items": OBJECT, "minItems": 3}
    (surface,) = hydrated({"api/x.json": _document(_get(_200=_json(schema=schema)))}).typed
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(examples_of(surface.operations[0])))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert all(each == found[0] for each in found)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "string", "pattern": "^[A-Z]{2}-\\d{4,}$"},
    {"type": "string", "pattern": "^(acct|cus)_[a-z0-9]+$", "minLength": 20},
    {"type": "string", "minLength": 12, "maxLength": 12},
    {"type": "string", "maxLength": 2},
    {"type": "integer", "minimum": 7, "exclusiveMaximum": 9, "multipleOf": 4},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5},
    {"type": "integer", "maximum": -3},
    {"type": ["null", "integer"]},
    {"enum": [None, "a"]},
    {"const": {"a": [1]}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 0},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "string"}}},
    {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "maxProperties": 1},
    {"type": "object", "required": ["x"]},
    {"type": "integer", "example": "no integer"},
    {"type": "string", "format": "date-time", "example": "yesterday"},
    {"type": "string", "default": 7, "enum": ["x"]},
    {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]},
               {"properties": {"a": {"minLength": 9}, "b": {"type": "integer"}}}]},
    {"allOf": [{"type": "integer", "minimum": 3}, {"minimum": 5, "maximum": 6}]},
    {"oneOf": [{"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
               {"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}]},
    {"oneOf": [{"properties": {"k": {"const": "x"}}}, {"properties": {"k": {"const": "y"}}}]},
    {"oneOf": [{"type": "number"}, {"type": "integer"}]},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
     "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer"}], "not": {"type": "string"}},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "not": {"required": ["a"]}},
    {"type": "object", "required": ["n"], "properties": {"n": {"anyOf": [
        {"$ref": "#"}, {"type": "null"}]}}},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_sample_suits_its_schema(schema):
    documents = JsonDocuments({"api/x.json": json.dumps(schema).encode()})
    value = SchemaSampler(documents).value(Located(documents.value("api/x.json"), "api/x.json"))
    jsonschema.Draft202012Validator(schema).validate(value)
    assert SchemaSampler(documents).value(Located(schema, "api/x.json")) == value


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "oneOf": [{"type": "object"}, {"type": "array"}]},
        {"type": "object", "properties": {"a": {"type": "boolean", "anyOf": [{"type": "null"}]}}},
    ],
    ids=str,
)
def test_a_schema_that_no_value_suits_has_a_sample_that_is_json(schema):
    documents = JsonDocuments({"api/x.json": json.dumps(schema).encode()})

    value = SchemaSampler(documents).value(Located(documents.value("api/x.json"), "api/x.json"))

    assert json.loads(json.dumps(value)) == value


def test_the_discriminator_of_an_alternative_is_its_name():
    base = {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}}
    document = {
        "oneOf": [{"$ref": "#/s/Cat"}],
        "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/s/Cat"}},
        "s": {"Cat": {"allOf": [base, {"properties": {"lives": {"type": "integer"}}}]}},
    }
    documents = JsonDocuments({"api/x.json": json.dumps(document).encode()})
    value = SchemaSampler(documents).value(Located(document, "api/x.json"))
    assert value == {"kind": "cat", "lives": 1}


def test_a_deep_sample_has_the_discriminator_of_its_alternative():
    """Without it, it suits the other alternative, too."""
    track, episode = (
        {"type": "object", "properties": {"id": {"type": "string"}, "type": {"enum": [name]}}}
        for name in ("track", "episode")
    )
    item = {"oneOf": [{"$ref": "#/s/Track"}, {"$ref": "#/s/Episode"}],
            "discriminator": {"propertyName": "type"}}  # fmt: skip
    deep = item
    for _ in range(4):
        deep = {"type": "object", "properties": {"below": deep}}
    document = {**deep, "s": {"Track": track, "Episode": episode}}
    documents = JsonDocuments({"api/x.json": json.dumps(document).encode()})
    value = SchemaSampler(documents).value(Located(document, "api/x.json"))
    for _ in range(4):
        value = value["below"]
    assert value == {"type": "track"}


_LEAVES = st.one_of(
    st.just({"type": "string"}),
    st.builds(lambda n: {"type": "string", "minLength": n}, st.integers(0, 20)),
    st.builds(lambda n, m: {"type": "integer", "minimum": n, "maximum": n + m},
              st.integers(-50, 50), st.integers(0, 9)),
    st.builds(lambda n: {"type": "integer", "multipleOf": n}, st.integers(1, 9)),
    st.builds(lambda each: {"enum": each}, st.lists(st.integers(0, 5), min_size=1, max_size=3)),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {}]),
)  # fmt: skip
_NAMES = st.sampled_from(["a", "b", "c"])


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(_NAMES, inner, max_size=3)
    objects = st.builds(
        lambda each, needed: {"type": "object", "properties": each,
                              "required": sorted(needed & set(each))},
        properties, st.sets(_NAMES),
    )  # fmt: skip
    return st.one_of(
        objects,
        st.builds(lambda each, n: {"type": "array", "items": each, "minItems": n},
                  inner, st.integers(0, 2)),
        st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one: {"allOf": [one, {"description": "as it is"}]}, objects),
    )  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.recursive(_LEAVES, _around, max_leaves=8))
def test_samples_and_checks_agree_with_a_library(schema):
    documents = JsonDocuments({})
    value = SchemaSampler(documents).value(Located(schema, ""))
    library = jsonschema.Draft202012Validator(schema)
    assert library.is_valid(value)
    for each in (value, None, {}, [], "x", 3, {"a": None}, [None]):
        assert Checks(documents).suits(each, [Located(schema, "")]) == library.is_valid(each)


@pytest.mark.parametrize(
    ("pattern", "minimum"),
    [
        ("^[a-f0-9]{32}$", 0), (r"^\d{3}-\d{2}$", 0), ("^https?://.+", 0), ("[^/]+/x", 0),
        (r"^([A-Z][a-z]*\s?)+$", 5), (r"^(?:a|b)?c+$", 4), ("^.*$", 7), (r"\A[\w.-]+@x\z", 0),
        (r"^\p{L}+$", None), ("(?=x)y", None), ("(", None), ("[z-a]", None), ("^$", 1),
        ("(" * 30 + "a" + ")" * 30, None), ("a{900}b{900}", None),
    ],
)  # fmt: skip
def test_texts_match_their_pattern(pattern, minimum):
    found = matching(pattern, minimum or 0)
    if minimum is None or pattern == "^$":
        assert found is None
        return
    expression = matcher(pattern)
    assert found is not None
    assert expression is not None
    assert expression.search(found)
    assert len(found) >= minimum


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="ab[](){}|*+?^$\\d.-,01", max_size=30))
def test_any_pattern_gives_a_match_or_nothing(pattern):
    found = matching(pattern)
    expression = matcher(pattern)
    assert found is None or (expression is not None and expression.search(found))


def test_a_check_names_the_place_and_the_reason():
    schema = {
        "type": "object",
        "required": ["id"],
        "additionalProperties": False,
        "properties": {"id": {"type": "integer"}, "tags": {"items": {"enum": ["a"]}}},
    }
    found = problems(JsonDocuments({}), {"id": "x", "tags": ["b"], "no": 1}, Located(schema, ""))
    assert [(each.pointer, each.reason) for each in found] == [
        ("/id", "it must be integer"),
        ("/tags/0", "it must be one of the enum"),
        ("/no", "this member is not declared"),
    ]


TEXT = '{ "cars": [ {"id": 5} ] }'
CARS = {"cars": [{"id": 5}]}
NULL_TYPE = {"type": ["object", "null"]}
TYPELESS: dict[str, Any] = {"properties": {"cars": {}}}
ALL_OF = {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"cars": {}}}]}
ANY_OF = {"oneOf": [{"type": "object"}, {"type": "array", "items": {}}]}


@pytest.mark.parametrize(
    ("schema", "text", "wanted"),
    [
        ({"type": "object"}, TEXT, CARS),
        ({"type": "array", "items": {}}, "[1, 2]\n", [1, 2]),
        ({"$ref": "#/components/schemas/Base"}, TEXT, CARS),
        (NULL_TYPE, TEXT, CARS),
        (TYPELESS, TEXT, CARS),
        (ALL_OF, TEXT, CARS),
        (ANY_OF, TEXT, CARS),
        ({"type": "string"}, TEXT, TEXT),
        ({"type": ["object", "string"]}, TEXT, TEXT),
        ({"oneOf": [{"type": "object"}, {"type": "string"}]}, TEXT, TEXT),
        ({}, TEXT, TEXT),
        ({"type": "object"}, '{"cars": ', '{"cars": '),
        ({"type": "object"}, '{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ({"type": "object"}, '{"a": "\\u0000"}', '{"a": "\\u0000"}'),
        ({"type": "object"}, "12", "12"),
        ({"type": "object"}, "[" * 100 + "]" * 100, "[" * 100 + "]" * 100),
        ({"type": "object"}, "see the manual", "see the manual"),
    ],
)
def test_an_example_of_json_that_is_written_as_a_text_is_answered_as_its_value(
    schema, text, wanted
):
    components = {"schemas": {"Base": {"type": "object"}}}
    for media in ({"example": text}, {"examples": {"a": {"value": text}}}):
        found = _examples(
            _document(_get(_200=_json(schema=schema, **media)), version="3.1.0",
                      components=components)
        )  # fmt: skip
        assert json.loads(found[0].response.body or "") == wanted


def test_texts_of_schemas_and_of_request_bodies_are_values_as_well():
    schema = {"type": "object", "required": ["cars"], "properties": {"cars": {}}, "example": TEXT}
    request = {"schema": {"type": "object"}, "examples": {"a": {"value": '{"kind": "a"}'}}}
    found = _examples(
        _document(
            {"put": {"requestBody": {"content": {"application/json": request}},
                     "responses": {"200": _json(schema=schema, examples={"a": {"value": TEXT}}),
                                   "201": _json(schema=schema)}}}
        )
    )  # fmt: skip

    assert ("body", "kind", "a") in {each for exchange in found for each in _when(exchange)}
    by_status = {each.status: each for each in found}
    assert json.loads(by_status["201"].response.body or "") == CARS


def test_xml_that_is_written_as_a_text_stays_as_it_is():
    media = {"schema": {"type": "object"}, "example": "{}"}
    found = _examples(
        _document(_get(_200={"description": "", "content": {"application/xml": media}}))
    )
    assert found[0].response.body == "{}"


def test_the_curl_command_of_an_operation_sends_the_value_of_a_text():
    media = {"schema": {"type": "object"}, "example": '{"kind": "a"}'}
    document = _document({"put": {"requestBody": {"content": {"application/json": media}},
                                  "responses": {"200": _json()}}})  # fmt: skip
    (surface,) = hydrated({"api/shop.json": document}).typed
    assert """'{"kind": "a"}'""" in surface.operations[0].curl_command


def test_the_curl_command_has_each_parameter_once_and_no_body_that_nobody_knows():
    contract = """{openapi: 3.0.3, paths: {/pets: {post: {operationId: find,
      parameters: [{name: status, in: query, required: true, schema: {type: string}}],
      requestBody: {content: {application/json: {}}}}}}}"""
    url = "/mocks/rest/shop/pets/pets?status=any&page=2"
    found = hydrated({
        "api/pets.yaml": contract,
        "mock/pets/find.metadata.yaml": f"spec: {{runtimeUrl: '{url}'}}",
        "mock/pets/find.yaml":
            "examples: {a: {when: [{from: query, param: status, value: sold}], response: {}}}",
    })  # fmt: skip

    command = found.only["curlCommand"]
    assert command == f"curl -i -X POST '{BASE}/mocks/rest/shop/pets/pets?page=2&status=sold'"


def _external(address: str, files: dict[str, str] | None = None, kind: str = "image/png") -> Any:
    answer = {"description": "", "content": {kind: {"examples": {
        "a": {"externalValue": address}}}}}  # fmt: skip
    document = json.dumps({"openapi": "3.1.0", "paths": {"/a": _get(_200=answer)}})
    found = hydrated({"api/v1/shop.json": document, **(files or {})})
    return found.typed


@pytest.mark.parametrize(
    ("address", "files", "body"),
    [
        ("data:image/png;base64,iVBO Rw%3D%3D", {}, b"\x89PNG"[:3] + b"G"),
        ("data:,%C3%A4", {}, "ä"),
        ("data:text/plain;charset=utf-8,a,b", {}, "a,b"),
        ("../b%20c.xml", {"api/b c.xml": "<a/>"}, "<a/>"),
    ],
)
def test_an_external_value_is_a_data_url_or_a_file_of_the_suite(address, files, body):
    (surface,) = _external(address, files)
    first = examples_of(surface.operations[0])[0]
    message = first.response
    assert first.name == "a"
    assert (message.content if message.body is None else message.body) == body


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("https://example.org/cat.png", "is not fetched"),
        ("../../../etc/passwd", "is not a file of the suite"),
        ("/etc/passwd", "is not a file of the suite"),
        ("data:image/png;base64,***", "is not a file of the suite"),
    ],
)
def test_an_external_value_elsewhere_is_named_and_nothing_is_fetched(address, reason):
    surfaces = _external(address)
    (first,) = examples_of(surfaces[0].operations[0])
    assert (first.name, first.media_type) == ("200", "image/png")
    (found,) = lint_mocks(surfaces)
    assert (found.code, found.severity) == ("mock_example_not_read", "warning")
    assert found.message == (
        "the example at /paths/~1a/get/responses/200/content/image~1png/examples/a "
        f'is not answered: "{address}" {reason}'
    )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": ["string", "null"], "default": None}, None),
        ({"type": "string", "nullable": True, "default": None}, None),
        ({"type": "string", "default": None}, "string"),
        ({"type": ["string", "null"], "default": None, "examples": ["a"]}, "a"),
        ({"type": "array", "contains": {"const": 5}}, [5]),
        ({"type": "array", "contains": {"type": "integer", "minimum": 3}, "minContains": 2,
          "items": {"type": "number"}, "minItems": 3}, [3, 3, 1]),
        ({"contains": {"type": "integer"}}, [1]),
        ({"type": "string", "format": "date", "examples": ["31.12.2020"]}, "31.12.2020"),
        ({"type": "string", "format": "date-time", "example": "yesterday"}, "yesterday"),
        ({"type": "string", "format": "date", "maxLength": 3, "example": "yes"}, "yes"),
    ],
)  # fmt: skip
def test_null_contains_and_examples_of_any_format_are_drawn(schema, value):
    assert SchemaSampler(JsonDocuments({})).value(Located(schema, "")) == value


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_drawn_sample_suits_its_schema(schema):
    documents = JsonDocuments({"api/x.json": json.dumps(schema).encode()})
    at = Located(documents.value("api/x.json"), "api/x.json")
    for seed in range(5):
        value = SchemaSampler(documents, randomness=random.Random(seed)).value(at)
        jsonschema.Draft202012Validator(schema).validate(value)


@settings(max_examples=50, deadline=None)
@given(st.recursive(_LEAVES, _around, max_leaves=8), st.integers())
def test_drawn_samples_suit_as_a_library_sees_it(schema, seed):
    value = SchemaSampler(JsonDocuments({}), randomness=random.Random(seed)).value(
        Located(schema, "")
    )
    assert jsonschema.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize("kind", ["uuid", "date", "date-time", "email", "ipv4", "uri", "time"])
def test_drawn_texts_have_their_format_and_differ(kind):
    schema = Located({"type": "string", "format": kind, "example": "no"}, "")
    drawn = random.Random(1)
    found = {SchemaSampler(JsonDocuments({}), randomness=drawn).value(schema) for _ in range(9)}
    assert len(found) > 5
    assert all(Checks(JsonDocuments({})).suits(each, [schema]) for each in found)


def test_the_lowest_2xx_response_answers_whatever_stands_first():
    empty = {"description": ""}
    found = _examples(_document(_get(_2XX=empty, _204=empty, _201=_json(example=1), _404=empty)))
    assert [each.status for each in found] == ["201", "204", "200", "404"]
    assert [_asked(each) is None for each in found] == [True, False, False, False]
    upgrade = _examples(_document(_get(_101=empty, _400=empty)))
    assert [each.status for each in upgrade] == ["400", "101"]  # a 101 cannot be answered


@pytest.mark.parametrize("text", ["", "a<b>&\"'", "two\nlines\tand\rmore", "é ]]> &amp;"])
def test_an_attribute_of_xml_is_read_as_it_was(text: str):
    assert read_xml(f"<a b={quote_attribute(text)}/>".encode()).get("b") == text
