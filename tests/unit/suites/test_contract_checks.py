"""Calls against the OpenAPI operation that they are for (reference: control-plane 18.2)."""

from __future__ import annotations

import json
import re
import shlex
import time
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mocks.model.calls import MockRequest
from surfaces.contract_checks import OperationChecks, Violation, checks_of, unchecked_parts
from surfaces.contract_examples.openapi_examples import OpenApiExamples
from surfaces.model import Operation
from tests.support.surfaces import hydrated

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


def _checks(
    operation: dict[str, Any], *, path: str = "/a", version: str = "3.1.0", **rest: Any
) -> OperationChecks:
    document = {"openapi": version, "paths": {path: {"post": operation}}, **rest}
    return _of_files({"api/shop.json": json.dumps(document)})


def _of_files(files: dict[str, str]) -> OperationChecks:
    (surface,) = hydrated(files).typed
    made = checks_of(surface.operations[0])
    assert made is not None
    return made


def _violation(
    checks: OperationChecks,
    body: object = b"",
    *,
    kind: str = JSON,
    query: str = "",
    headers: dict[str, str] | None = None,
    params: dict[str, str] | None = None,
) -> Violation | None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    typed = {"content-type": kind} if raw and kind else {}
    request = MockRequest(
        "POST",
        "/a",
        headers={**typed, **(headers or {})},
        params=params,
        raw_query=query,
        raw_body=raw,
    )
    return checks.check(request)


def _pointers(violation: Violation | None) -> list[str]:
    return [] if violation is None else [each["pointer"] for each in violation.errors]


def _parameter(source: str, schema: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"parameters": [{"name": "p", "in": source, "schema": schema, **rest}]}


def _body(schema: Any, kind: str = JSON, **rest: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {kind: {"schema": schema, **rest}}}}


INTEGERS = {"type": "array", "items": {"type": "integer"}}
COLOR = {
    "type": "object",
    "properties": {"R": {"type": "integer"}, "G": {"type": "integer"}},
    "required": ["R"],
}
UUID = "aaaaaaaa-1111-4111-8111-bbbbbbbbbbbb"
FORM_LIST = {"style": "form", "explode": False}


@pytest.mark.parametrize(
    ("schema", "rest", "valid", "invalid"),
    [
        ({"type": "integer"}, {}, ["p=1", "p=-3", "", "q=x"], ["p=x", "p=1.5", "p="]),
        ({"type": "integer", "maximum": 100}, {}, ["p=100"], ["p=101"]),
        ({"type": "number"}, {}, ["p=1", "p=1.5e3"], ["p=1e999", "p=NaN", "p=0x1"]),
        ({"type": "boolean"}, {}, ["p=true", "p=false"], ["p=1", "p=yes"]),
        ({"type": "string", "enum": ["a", "b c"]}, {}, ["p=a", "p=b+c", "p=b%20c"], ["p=c"]),
        ({"type": "string", "minLength": 1}, {}, ["p=7"], ["p="]),
        ({"type": ["integer", "string"], "maxLength": 2}, {}, ["p=7", "p=ab"], ["p=abc"]),
        ({"type": "integer"}, {"allowEmptyValue": True}, ["p=", "p"], ["p=x"]),
        ({"type": "integer"}, {"required": True}, ["p=1"], ["", "q=1"]),
        (INTEGERS, {}, ["p=1&p=2", "p=3"], ["p=1&p=x", "p=1,2"]),
        (INTEGERS, FORM_LIST, ["p=1,2", "p=3", "p=1%2C2"], ["p=1,x", "p=1%2cx"]),
        (INTEGERS, {"style": "spaceDelimited", "explode": False}, ["p=1%202", "p=1+2"], ["p=1,2"]),
        (INTEGERS, {"style": "pipeDelimited", "explode": False}, ["p=1|2", "p=1%7C2"], ["p=1|x"]),
        ({**INTEGERS, "minItems": 2}, {}, ["p=1&p=2"], ["p=1"]),
        (COLOR, {}, ["R=1&G=2", "R=1", ""], ["R=x", "G=1"]),
        (COLOR, FORM_LIST, ["p=R,1,G,2"], ["p=R,x", "p=G,1"]),
        (COLOR, {"style": "deepObject"}, ["p[R]=1&p[G]=2", "p%5BR%5D=1"], ["p[R]=x", "p[G]=1"]),
        (
            {"type": "array", "items": COLOR},
            {"style": "deepObject"},
            ["p[0][R]=1&p[1][R]=2&p[1][G]=3", "p[10][R]=1&p[9][R]=2"],
            ["p[0][R]=x", "p[0][G]=1"],
        ),
        (INTEGERS, {"style": "deepObject"}, ["p[0]=1&p[1]=2", "p[]=1&p[]=2"], ["p[0]=x", "p[]=x"]),
        (
            {"anyOf": [{"type": "string", "enum": ["now"]}, COLOR]},
            {"style": "deepObject"},
            ["p=now", "p[R]=1"],
            ["p=later", "p[R]=x"],
        ),
        (
            {"type": "object", "properties": {"a": COLOR, "n": INTEGERS}},
            {"style": "deepObject"},
            ["p[a][R]=1", "p[n]=1&p[n]=2", "p[n][]=1", "p[n][0]=1"],
            ["p[a][R]=x", "p[n]=x"],
        ),
    ],
)
def test_parameters_of_the_query_are_read_by_their_style(
    schema: dict[str, Any], rest: dict[str, Any], valid: list[str], invalid: list[str]
):
    checks = _checks(_parameter("query", schema, **rest))

    for query in valid:
        assert _pointers(_violation(checks, query=query)) == [], query
    for query in invalid:
        found = _violation(checks, query=query)
        assert found is not None, query
        assert (found.status, found.errors[0]["pointer"][:8]) == (422, "/query/p")


@pytest.mark.parametrize(
    ("schema", "style", "explode", "valid", "invalid"),
    [
        ({"type": "integer"}, "simple", False, "5", "x"),
        (INTEGERS, "simple", False, "3,4,5", "3,x"),
        (COLOR, "simple", False, "R,100,G,200", "R,x"),
        (COLOR, "simple", True, "R=100,G=200", "G=200"),
        ({"type": "integer"}, "label", False, ".5", ".x"),
        (INTEGERS, "label", False, ".3,4,5", ".3,x"),
        (INTEGERS, "label", True, ".3.4.5", ".3.x"),
        (COLOR, "label", True, ".R=100.G=200", ".R=x"),
        ({"type": "integer"}, "matrix", False, ";p=5", ";p=x"),
        (INTEGERS, "matrix", False, ";p=3,4,5", ";p=3,x"),
        (INTEGERS, "matrix", True, ";p=3;p=4", ";p=3;p=x"),
        (COLOR, "matrix", False, ";p=R,100,G,200", ";p=R,x"),
        (COLOR, "matrix", True, ";R=100;G=200", ";R=x"),
    ],
)
def test_parameters_of_the_path_are_read_by_their_style(
    schema: dict[str, Any], style: str, explode: bool, valid: str, invalid: str
):
    rest = {"style": style, "explode": explode, "required": True}
    checks = _checks(_parameter("path", schema, **rest), path="/a/{p}")

    assert _violation(checks, params={"p": valid}) is None
    assert _pointers(_violation(checks, params={"p": invalid}))[0].startswith("/path/p")


def test_headers_and_cookies_are_parameters_and_some_headers_are_not():
    operation = {
        "parameters": [
            {"name": "X-Ids", "in": "header", "required": True, "schema": INTEGERS},
            {"name": "Accept", "in": "header", "required": True, "schema": {"type": "integer"}},
            {"name": "seen", "in": "cookie", "schema": {"type": "boolean"}},
        ]
    }
    checks = _checks(operation)

    assert _violation(checks, headers={"x-ids": "1, 2", "cookie": "a=b; seen=true"}) is None
    assert _pointers(_violation(checks)) == ["/header/X-Ids"]
    wrong = _violation(checks, headers={"x-ids": "1,x", "cookie": "seen=maybe"})
    assert _pointers(wrong) == ["/header/X-Ids/1", "/cookie/seen"]


def test_a_parameter_with_content_is_json():
    given = {"name": "p", "in": "query", "content": {JSON: {"schema": COLOR}}}
    checks = _checks({"parameters": [given]})

    assert _violation(checks, query="p=%7B%22R%22%3A1%7D") is None
    assert _pointers(_violation(checks, query="p=%7B%22R%22%3A%22x%22%7D")) == ["/query/p/R"]
    assert _pointers(_violation(checks, query="p=%7B")) == ["/query/p"]


def test_parameters_of_the_operation_win_over_those_of_its_path():
    shared = {"name": "p", "in": "query", "required": True, "schema": {"type": "integer"}}
    own = {"name": "p", "in": "query", "schema": {"type": "string"}}
    item = {"parameters": [shared], "post": {"parameters": [own]}}
    checks = _of_files({"api/shop.json": json.dumps({"openapi": "3.0.0", "paths": {"/a": item}})})

    assert _violation(checks) is None
    assert _violation(checks, query="p=x") is None


@pytest.mark.parametrize(
    ("version", "schema", "valid", "invalid"),
    [
        ("3.0.3", {"type": "string", "nullable": True}, [None, "a"], [1]),
        ("3.0.3", {"type": "string", "nullable": True, "enum": ["a"]}, [None, "a"], ["b"]),
        ("3.0.3", {"nullable": True, "allOf": [COLOR]}, [None, {"R": 1}], [{}]),
        ("3.0.3", {"type": "number", "minimum": 1, "exclusiveMinimum": True}, [2], [1]),
        ("3.0.3", {"type": "number", "maximum": 1, "exclusiveMaximum": False}, [1], [2]),
        ("3.1.0", {"type": ["string", "null"]}, [None, "a"], [1]),
        ("3.1.0", {"type": "number", "exclusiveMinimum": 1}, [2], [1]),
        ("3.1.0", {"const": 3}, [3], [4]),
        ("3.1.0", {"type": "array", "prefixItems": [{"type": "string"}]}, [["a", 1]], [[1]]),
        ("3.1.0", {"if": {"required": ["a"]}, "then": {"required": ["b"]}}, [{}], [{"a": 1}]),
        ("3.1.0", {"dependentRequired": {"a": ["b"]}}, [{"b": 1}], [{"a": 1}]),
        ("3.0.3", {"type": "integer", "format": "int32"}, [2**31 - 1], [2**31]),
        ("3.0.3", {"type": "integer", "format": "int64"}, [2**63 - 1], [2**63]),
        ("3.0.3", {"type": "number", "format": "float"}, [1.5e38], [1e39]),
        ("3.0.3", {"type": "string", "format": "byte"}, ["YQ=="], ["?", "YQ"]),
        ("3.0.3", {"type": "string", "format": "date-time"}, ["2026-01-02T03:04:05Z"], ["today"]),
        ("3.0.3", {"type": "string", "format": "email"}, ["a@b.org"], ["a"]),
        ("3.0.3", {"type": "string", "format": "uuid"}, [UUID], ["1"]),
        ("3.0.3", {"type": "string", "format": "uri"}, ["https://a.org/b"], ["/b"]),
        ("3.0.3", {"type": "string", "format": "isbn"}, ["whatever"], [1]),
        ("3.0.3", {"type": "object", "additionalProperties": False}, [{}], [{"x": 1}]),
        ("3.0.3", {"oneOf": [COLOR, {"type": "string"}]}, ["a", {"R": 1}], [1, {}]),
        ("3.0.3", {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
         [[{"below": [{"below": []}]}]], [[{"below": [{"below": 1}]}]]),
    ],
)  # fmt: skip
def test_schemas_of_both_versions_are_checked(
    version: str, schema: dict[str, Any], valid: list[Any], invalid: list[Any]
):
    tree = {
        "type": "object",
        "properties": {"below": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
    }
    checks = _checks(_body(schema), version=version, components={"schemas": {"Tree": tree}})

    for value in valid:
        assert _violation(checks, value) is None, value
    for value in invalid:
        found = _violation(checks, value)
        assert found is not None, value
        assert found.status == 422
        assert found.errors[0]["pointer"].startswith("/body")


def test_errors_have_a_pointer_a_code_and_a_sentence_but_no_value():
    item = {
        "type": "object",
        "required": ["id"],
        "additionalProperties": False,
        "properties": {"id": {"type": "integer", "maximum": 100}, "kind": {"enum": ["a"]}},
    }
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    checks = _checks(_body(schema))

    found = _violation(
        checks, {"items": [{"id": "secret"}, {}, {"id": 101, "a/b": 1, "kind": "hidden"}]}
    )

    assert found is not None
    assert list(found.errors) == [
        {"pointer": "/body/items/0/id", "code": "wrong_type", "detail": "must be integer"},
        {"pointer": "/body/items/1/id", "code": "required", "detail": "is required"},
        {"pointer": "/body/items/2/id", "code": "invalid_value", "detail": "must be ≤ 100"},
        {"pointer": "/body/items/2/a~1b", "code": "unknown_field",
         "detail": "this member is not declared"},
        {"pointer": "/body/items/2/kind", "code": "invalid_value",
         "detail": "must be one of the enum"},
    ]  # fmt: skip


def test_references_lead_into_other_files_and_a_dead_one_checks_nothing():
    operation = _body({"$ref": "schemas/pet.yaml#/Pet"})
    contract = json.dumps({"openapi": "3.0.0", "paths": {"/a": {"post": operation}}})
    pet = "Pet: {type: object, properties: {owner: {$ref: 'people.yaml'}, x: {$ref: '#/No'}}}"
    files = {"api/shop.json": contract, "api/schemas/pet.yaml": pet,
             "api/schemas/people.yaml": "{type: string, maxLength: 3}"}  # fmt: skip
    checks = _of_files(files)

    assert _violation(checks, {"owner": "ada", "x": 5}) is None
    assert _pointers(_violation(checks, {"owner": "grace"})) == ["/body/owner"]


def test_a_request_needs_no_member_that_only_answers_have():
    schema = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string"},
            "secret": {"type": "string", "writeOnly": True},
        },
    }
    responses = {"200": {"content": {JSON: {"schema": schema}}}}
    checks = _checks({**_body(schema), "responses": responses})

    assert _violation(checks, {"name": "a"}) is None
    assert _pointers(_violation(checks, {})) == ["/body/name"]
    assert checks.answer_errors(200, JSON, b'{"id": 1, "name": "a"}') == ()
    (error,) = checks.answer_errors(200, JSON, b'{"name": "a"}')
    assert error["pointer"] == "/response/body/id"
    (error,) = checks.answer_errors(500, JSON, b"{}")
    assert error["pointer"] == "/response/status"


def test_a_body_is_checked_by_its_media_type():
    content = {
        JSON: {"schema": {"type": "object"}},
        "text/*": {"schema": {"type": "integer"}},
        "application/vnd.a+json": {"schema": {"type": "array"}},
        "image/png": {},
    }
    checks = _checks({"requestBody": {"required": True, "content": content}})

    assert _violation(checks, {}) is None
    assert _violation(checks, {}, kind="Application/JSON; charset=utf-8") is None
    assert _violation(checks, {}, kind="") is None, "the first one, if none is named"
    assert _violation(checks, [], kind="application/vnd.a+json") is None
    assert _violation(checks, b"12", kind="text/plain") is None
    assert _violation(checks, b"\x89PNG", kind="image/png") is None
    assert _pointers(_violation(checks, b"ab", kind="text/plain")) == ["/body"]
    for body in (b"{", b'{"a": "\xff"}'):
        malformed = _violation(checks, body)
        assert malformed is not None
        assert (malformed.status, _pointers(malformed)) == (400, ["/body"])
    missing = _violation(checks)
    assert missing is not None
    assert (missing.status, _pointers(missing)) == (422, ["/body"])
    unsupported = _violation(checks, b"a", kind="application/pdf")
    assert unsupported is not None
    assert (unsupported.status, _pointers(unsupported)) == (415, ["/header/Content-Type"])


def test_400_refuses_where_the_contract_declares_it_and_not_422():
    for declared, status in ((["400"], 400), (["400", "422"], 422), (["200"], 422)):
        responses = {each: {"description": ""} for each in declared}
        checks = _checks({**_body({"type": "object"}), "responses": responses})
        found = _violation(checks, 1)
        assert found is not None
        assert found.status == status


ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        "color": COLOR,
    },
}


@pytest.mark.parametrize(
    ("encoding", "body", "pointers"),
    [
        ({}, b"id=1&tags=a&tags=b", []),
        ({}, b"tags=a", ["/body/id"]),
        ({}, b"id=x&tags=long", ["/body/id", "/body/tags/0"]),
        ({}, b"id=1&color=%7B%22R%22%3A1%7D", []),
        ({"tags": {"explode": False}}, b"id=1&tags=a,b,long", ["/body/tags/2"]),
        ({"color": {"style": "deepObject"}}, b"id=1&color[R]=1", []),
        ({"color": {"style": "deepObject"}}, b"id=1&color[R]=x", ["/body/color/R"]),
    ],
)
def test_a_form_is_a_map_of_its_fields(encoding: Any, body: bytes, pointers: list[str]):
    checks = _checks(_body(ORDER, FORM, encoding=encoding))

    assert _pointers(_violation(checks, body, kind=FORM)) == pointers


def _multipart(*parts: tuple[str, str]) -> bytes:
    made = "".join(f"--B\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n"
                   for head, body in parts)  # fmt: skip
    return f"{made}--B--\r\n".encode()


def test_a_multipart_body_is_a_map_of_its_parts():
    schema = {**ORDER, "properties": {**ORDER["properties"], "file": {"type": "string"}}}
    checks = _checks(_body(schema, "multipart/form-data"))
    kind = 'multipart/form-data; boundary="B"'
    file = ('name="file"; filename="a.txt"\r\nContent-Type: text/plain', "hello")

    good = _multipart(('name="id"', "1"), ("name=tags", "a"), ("name=tags", "b"), file)
    assert _violation(checks, good, kind=kind) is None
    bad = _multipart(('name="id"', "x"), ('name="color"', '{"R": "x"}'))
    assert _pointers(_violation(checks, bad, kind=kind)) == ["/body/id", "/body/color/R"]
    assert _pointers(_violation(checks, b"id=1", kind=kind)) == ["/body"]
    unknown = _violation(checks, good, kind="multipart/form-data")
    assert unknown is not None
    assert (unknown.status, _pointers(unknown)) == (415, ["/header/Content-Type"])


def test_xml_is_checked_as_far_as_the_schema_says():
    schema = {
        "type": "object",
        "xml": {"name": "pet"},
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "xml": {"attribute": True}},
            "name": {"type": "string", "xml": {"name": "n", "prefix": "p"}},
            "tags": {"type": "array", "xml": {"wrapped": True}, "items": {"type": "integer"}},
            "links": {"type": "array", "items": {"type": "string", "xml": {"name": "link"}}},
        },
    }
    checks = _checks(_body(schema, "application/xml"))

    def pointers(text: str) -> list[str]:
        return _pointers(_violation(checks, text.encode(), kind="application/xml"))

    tags = "<tags><tag>1</tag><tag>2</tag></tags><link>a</link><link>b</link>"
    assert pointers(f'<pet id="1" xmlns:p="urn:p"><p:n>Rex</p:n>{tags}</pet>') == []
    assert pointers('<pet id="x"><n>Rex</n><tags><tag>a</tag></tags></pet>') == [
        "/body/id",
        "/body/tags/0",
    ]
    assert pointers("<pet><n>Rex</n></pet>") == ["/body/id"]
    assert pointers("<pet") == ["/body"]
    entity = '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><pet id="1"><n>&e;</n></pet>'
    assert pointers(entity) == ["/body"]


KEY = {"type": "apiKey", "in": "header", "name": "X-Key"}
DIGEST = 'Digest username="a", realm="r", nonce="n", uri="/", response="x"'
SCHEMES = {
    "key": KEY,
    "tls": {"type": "mutualTLS"},
    "digest": {"type": "http", "scheme": "digest"},
    "query": {"type": "apiKey", "in": "query", "name": "k"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "oauth": {"type": "oauth2", "flows": {}},
}


@pytest.mark.parametrize(
    ("security", "headers", "query", "challenge"),
    [
        ([{"key": []}], {"x-key": "1"}, "", None),
        ([{"key": []}], {}, "", 'ApiKey in="header", name="X-Key"'),
        ([{"query": []}], {}, "k=1", None),
        ([{"cookie": []}], {"cookie": "sid=1"}, "", None),
        ([{"basic": []}], {"authorization": "Basic YTpi"}, "", None),
        ([{"basic": []}], {"authorization": "Basic YWI="}, "", 'Basic realm="mock"'),
        ([{"bearer": []}], {"authorization": "bearer x"}, "", None),
        ([{"bearer": []}], {"authorization": "Bearer "}, "", "Bearer"),
        ([{"oauth": ["a"]}], {"authorization": "Basic YTpi"}, "", "Bearer"),
        ([{"key": [], "bearer": []}], {"x-key": "1"}, "",
         'ApiKey in="header", name="X-Key", Bearer'),
        ([{"key": []}, {"bearer": []}], {"authorization": "Bearer x"}, "", None),
        ([{"key": []}, {}], {}, "", None),
        ([{"unknown": []}], {}, "", None),
        ([{"bearer": []}, {"tls": []}], {}, "", "Bearer"),
        ([{"tls": []}], {}, "", None),
        ([{"digest": []}], {"authorization": 'Digest username="a"'}, "", 'Digest realm="mock"'),
        ([{"digest": []}], {"authorization": DIGEST}, "", None),
        ([], {}, "", None),
    ],
)  # fmt: skip
def test_a_call_needs_the_credentials_of_one_alternative(
    security: Any, headers: dict[str, str], query: str, challenge: str | None
):
    checks = _checks(
        {**_body({"type": "object"}), "security": security},
        components={"securitySchemes": SCHEMES},
        security=[{"key": []}],
    )

    found = _violation(checks, headers=headers, query=query)

    assert (found.status, found.challenges) == (401, challenge) if found else challenge is None


def test_the_security_of_the_document_holds_where_the_operation_says_nothing():
    checks = _checks({}, components={"securitySchemes": SCHEMES}, security=[{"bearer": []}])

    found = _violation(checks)

    assert found is not None
    assert (found.status, _pointers(found)) == (401, ["/header/Authorization"])


def test_an_operation_without_anything_to_check_has_no_checks():
    document = {"openapi": "3.1.0", "paths": {"/a": {"get": {"responses": {}}}}}
    (surface,) = hydrated({"api/shop.json": json.dumps(document)}).typed

    assert checks_of(surface.operations[0]) is None


def test_what_makes_no_sense_in_a_schema_is_left_out_and_the_rest_is_checked():
    schema = {
        "type": "object",
        "required": True,
        "properties": {
            "a": {"type": "any", "minLength": "x", "pattern": "(?=b)"},
            "b": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
        },
    }
    document = {"openapi": "3.1.0", "paths": {"/a": {"post": _body(schema)}}}
    (surface,) = hydrated({"api/shop.json": json.dumps(document)}).typed
    (operation,) = surface.operations
    checks = checks_of(operation)
    assert checks is not None
    assert isinstance(operation.contract_examples, OpenApiExamples)

    assert _violation(checks, {"a": 1, "b": "abc"}) is None
    assert _pointers(_violation(checks, {"b": "A"})) == ["/body/b"]
    assert list(unchecked_parts(operation.contract_examples)) == [
        (
            "the body as application/json",
            "the pattern (?=b) is not one of linear time (no look-around)",
        )
    ]


def _fan_out(key: str, levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        f"d{level}": {key: [{"$ref": f"#/components/schemas/d{level + 1}"}] * 2}
        for level in range(levels)
    }
    return {**made, f"d{levels}": {"type": "object", "minProperties": 5}}


_NESTED = b"[" * 900 + b"]" * 900


@pytest.mark.timed
@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"$ref": "#/components/schemas/d0"}, {"a": 1}),
        ({"$ref": "#/components/schemas/Deep"}, _NESTED),
        ({"$ref": "#/components/schemas/Deep"}, b"[" * 100_000),
        ({"type": "string", "pattern": "^(a+)+$"}, "a" * 50_000 + "b"),
        ({"type": "string", "pattern": "(.{0,200}a){9}$"}, "ab" * 500_000),
        ({"$ref": "#/components/schemas/Twice"}, {"x": {"x": {"x": {"x": {"x": {"x": {}}}}}}}),
        ({"type": "array", "items": {"type": "integer"}}, ["x"] * 100_000),
        ({"type": "array", "uniqueItems": True}, [{"a": n} for n in range(20_000)]),
    ],
)
def test_hostile_schemas_and_bodies_take_little_time(schema: dict[str, Any], body: object):
    deep = {"type": "array", "items": {"$ref": "#/components/schemas/Deep"}}
    below = {"properties": {"x": {"$ref": "#/components/schemas/Twice"}}}
    twice = {"oneOf": [{**below, "required": ["y"]}, {**below, "required": ["z"]}]}
    schemas = {"Deep": deep, "Twice": twice, **_fan_out("anyOf", 40)}
    checks = _checks(_body(schema), components={"schemas": schemas})
    started = time.process_time()

    found = _violation(checks, body)

    assert found is None or 0 < len(found.errors) <= 50
    assert time.process_time() - started < 1


@pytest.mark.timed
def test_a_flood_of_parameters_and_fields_takes_little_time():
    listed = [
        {"name": f"p{n}", "in": "query", "schema": {"type": "integer"}} for n in range(10_000)
    ]
    checks = _checks({"parameters": listed, **_body(ORDER, FORM)})
    query = "&".join(f"p{n}=x" for n in range(10_000))
    form = b"&".join(b"f%d=1" % n for n in range(200_000))
    started = time.process_time()

    found = _violation(checks, form, kind=FORM, query=query)

    assert found is not None
    assert len(found.errors) == 50
    assert time.process_time() - started < 1


_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_texts, below, max_size=3),
    max_leaves=10,
)
_KINDS = st.sampled_from([JSON, FORM, "multipart/form-data; boundary=B", "text/xml", "", "a/b"])
_FUZZED = _checks(
    {
        "parameters": [
            {"name": "p", "in": "query", "style": "deepObject", "schema": COLOR},
            {"name": "q", "in": "query", "schema": INTEGERS},
            {"name": "h", "in": "header", "schema": COLOR},
            {"name": "c", "in": "cookie", "schema": INTEGERS},
        ],
        "security": [{"basic": []}],
        "requestBody": {
            "content": {
                each: {"schema": ORDER} for each in (JSON, FORM, "multipart/form-data", "text/xml")
            }
        },
    },
    components={"securitySchemes": SCHEMES},
)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | _values, _texts, st.dictionaries(
    st.sampled_from(["h", "cookie", "authorization"]), _texts), _KINDS)  # fmt: skip
def test_whatever_is_called_a_check_answers(
    body: object, query: str, headers: dict[str, str], kind: str
):
    found = _violation(_FUZZED, body, kind=kind, query=query, headers=headers)

    assert found is None or all(each["pointer"].startswith("/") for each in found.errors)


@settings(max_examples=150, deadline=None)
@given(_values, _values)
def test_whatever_a_schema_says_a_check_answers(schema: Any, body: Any):
    made = {"type": "object", "properties": {"a": schema}, "allOf": [schema]}
    checks = _checks({**_body(made), **_parameter("query", schema)})

    _violation(checks, {"a": body}, query="p=1")


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["type", "nullable", "enum", "items", "properties", "required", "minimum", "maximum",
             "exclusiveMinimum", "pattern", "format", "$ref", "allOf", "oneOf", "not", "const",
             "additionalProperties", "multipleOf", "minLength", "patternProperties", "if"]
        ),
        _values | st.dictionaries(_texts, _values, max_size=2),
    ),
    _values,
)  # fmt: skip
def test_whatever_keywords_say_a_check_answers(schema: Any, body: Any):
    _violation(_checks(_body(schema)), {"a": body})


_odd = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(
    ["form", "label", "matrix", "deepObject", "header", "path", "cookie", "query", JSON, FORM, "p",
     "basic", "apiKey", "http", "text/xml", "object", "array", "#/paths", "multipart/x"]
)  # fmt: skip
_odd_parts = st.recursive(
    _odd,
    lambda below: st.lists(below, max_size=2)
    | st.dictionaries(
        st.sampled_from(
            ["name", "in", "style", "explode", "schema", "content", "required", JSON, FORM, "p",
             "text/xml", "multipart/x", "encoding", "type", "items", "properties", "xml", "scheme",
             "allowEmptyValue", "$ref", "200", "basic", "wrapped", "attribute"]
        ),
        below,
        max_size=4,
    ),
    max_leaves=15,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "parameters": st.lists(
                st.fixed_dictionaries(
                    {"name": st.just("p"), "in": st.sampled_from(["query", "path", "header"])},
                    optional=dict.fromkeys(
                        ("style", "explode", "schema", "content", "required"), _odd_parts
                    ),
                ),
                max_size=2,
            ),
            "requestBody": _odd_parts,
            "security": _odd_parts,
            "responses": _odd_parts,
        },
    ),
    _odd_parts,
    _KINDS,
)
def test_whatever_an_operation_says_a_check_answers(operation: Any, schemes: Any, kind: str):
    components = {"securitySchemes": schemes}
    document = {"openapi": "3.0.0", "paths": {"/a/{p}": {"post": operation}},
                "components": components}  # fmt: skip
    (surface,) = hydrated({"api/shop.json": json.dumps(document)}).typed
    checks = checks_of(surface.operations[0])
    if checks is not None:
        for body in (b"", b"{}", b"<p/>", b"p=1", b"--B\r\n\r\n--B--"):
            _violation(checks, body, kind=kind, query="p=1&p[x]=2", params={"p": ";p=.1"})
        checks.answer_errors(200, kind, b"{}")


EXAMPLES = Path(__file__).parents[3] / "examples"
SUITES = sorted((EXAMPLES / "oci-suites").iterdir())


@pytest.mark.parametrize("folder", SUITES, ids=attrgetter("name"))
def test_the_calls_that_example_suites_show_fit_their_contracts(folder: Path):
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    for surface in hydrated(files).typed:
        for operation in surface.operations:
            checks = checks_of(operation)
            if checks is not None:
                assert checks.check(_shown_call(operation)) is None, operation.curl_command


def _shown_call(operation: Operation) -> MockRequest:
    """The request of an operation's curl command, whose path has no template."""
    words = shlex.split(operation.curl_command)
    options = list(pairwise(words))
    headers = dict(value.split(": ", 1) for name, value in options if name == "-H")
    body = next((value for name, value in options if name in ("-d", "--data-raw")), "")
    url = urlsplit(next(each for each in words if each.startswith("http")))
    names = re.findall(r"\{([^{}]*)\}", operation.path)
    pattern = re.sub(r"\\\{[^{}]*\\\}", "([^/]+)", re.escape(operation.path))
    found = re.search(f"{pattern}$", url.path)
    return MockRequest(
        operation.method,
        url.path,
        headers={name.lower(): value for name, value in headers.items()},
        params=dict(zip(names, found.groups(), strict=True)) if found else {},
        raw_query=url.query,
        raw_body=body.encode(),
    )
