"""Swagger 2 documents, which are read as OpenAPI 3.0 (reference: control-plane 6.2)."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_schema_validator import OAS30ReadValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from mocks.model.calls import MockRequest
from surfaces import examples_of
from surfaces.contract_checks import checks_of
from surfaces.contracts import Sources
from surfaces.trees import MAX_WARNINGS, Warnings
from tests.support.npm import npm_files
from tests.support.surfaces import hydrated

PETS = """\
swagger: "2.0"
info: {title: Pets}
host: pets.example.org
basePath: /v2
schemes: [https, http]
consumes: [application/json]
produces: [application/json, application/xml]
securityDefinitions:
  user: {type: basic}
  key: {type: apiKey, in: header, name: X-Key}
  code: {type: oauth2, flow: accessCode, authorizationUrl: "https://a",
         tokenUrl: "https://t", scopes: {r: all}}
parameters:
  limit: {name: limit, in: query, type: integer, maximum: 9, required: true, x-example: 7}
  pet: {name: pet, in: body, required: true, schema: {$ref: "#/definitions/Pet"}}
responses:
  gone: {description: gone, schema: {$ref: "#/definitions/Problem"},
         examples: {application/json: {code: 410}}}
paths:
  /pets/{id}:
    parameters: [{name: id, in: path, required: true, type: string, x-example: p1}]
    get:
      operationId: getPet
      parameters: [{$ref: "#/parameters/limit"}]
      responses:
        200:
          description: found
          schema: {$ref: "#/definitions/Pet"}
          headers: {X-Rate: {type: integer, x-example: 5}}
          examples: {application/json: {name: Rex}}
        410: {$ref: "#/responses/gone"}
    post:
      operationId: addPet
      parameters: [{$ref: "#/parameters/pet"}]
      responses: {201: {description: made}}
    put:
      operationId: addPhoto
      produces: [application/problem+json]
      parameters:
        - {name: photo, in: formData, type: file, required: true}
        - {name: tags, in: formData, type: array, items: {type: string}, collectionFormat: pipes}
      responses:
        200: {description: a picture, schema: {type: file}}
        410: {$ref: "#/responses/gone"}
definitions:
  Problem: {type: object, properties: {code: {type: integer, example: 404}}}
  Pet:
    type: object
    discriminator: kind
    properties: {kind: {type: string}, name: {type: string, x-nullable: true}}
"""


def _read(text: str, **others: str) -> tuple[Any, list[str]]:
    """Return the document as it is used, and what is wrong with it."""
    files = {f"api/{name}.yaml": each.encode() for name, each in {"pets": text, **others}.items()}
    warnings = Warnings()
    sources = Sources(files, warnings)
    tree = sources.tree("api/pets.yaml")
    value = sources.documents.value("api/pets.yaml")
    assert value == tree.plain()
    found = [f"{each.line}:{each.column} {each.detail}" for each in warnings.list_warnings()]
    return value, found


def _paths(operation: str, more: str = "") -> str:
    return f"swagger: '2.0'\npaths:\n  /a:\n    post: {{{operation}}}\n{more}"


def test_a_swagger_document_is_a_surface_that_answers():
    found = hydrated({"api/pets.yaml": PETS})

    assert found.warnings == []
    assert found.ids("pets") == ["getPet", "addPhoto", "addPet"]
    answers = {each.operation_id: examples_of(each) for each in found.typed[0].operations}
    rex = answers["getPet"][0]
    assert (rex.status, rex.media_type, rex.response.headers) == (
        "200", "application/json", {"X-Rate": "5"},
    )  # fmt: skip
    assert json.loads(rex.response.body or "") == {"name": "Rex"}
    statuses = {name: {each.status for each in listed} for name, listed in answers.items()}
    assert statuses == {"getPet": {"200", "410"}, "addPhoto": {"200", "410"}, "addPet": {"201"}}
    curl = found.operation("pets", "addPet")["curlCommand"]
    assert "/mocks/rest/shop/pets/pets/p1" in curl
    assert '{"kind": "string", "name": "string"}' in curl


def test_the_operations_keep_their_places():
    files = {"api/pets.yaml": PETS.replace("    put:", "    options: 7\n    put:")}

    assert hydrated(files).warnings == [("contract_invalid", "api/pets.yaml", 36, 14)]


def test_servers_and_security_schemes_have_the_form_of_openapi():
    document, _ = _read(PETS)

    assert document["openapi"] == "3.0.3"
    assert [each["url"] for each in document["servers"]] == [
        "https://pets.example.org/v2", "http://pets.example.org/v2",
    ]  # fmt: skip
    schemes = document["components"]["securitySchemes"]
    assert (schemes["user"]["type"], schemes["user"]["scheme"]) == ("http", "basic")
    assert schemes["key"] == {"type": "apiKey", "in": "header", "name": "X-Key"}
    assert schemes["code"]["flows"] == {"authorizationCode": {
        "authorizationUrl": "https://a", "tokenUrl": "https://t", "scopes": {"r": "all"},
    }}  # fmt: skip


def test_schemas_have_the_form_of_openapi_where_references_find_them():
    document, _ = _read(PETS)

    pet = document["definitions"]["Pet"]
    assert pet["discriminator"] == {"propertyName": "kind"}
    assert pet["properties"]["name"] == {"type": "string", "nullable": True}
    assert document["parameters"]["limit"]["schema"] == {"type": "integer", "maximum": 9}
    assert document["parameters"]["limit"]["example"] == 7


def test_bodies_and_forms_are_request_bodies():
    item = _read(PETS)[0]["paths"]["/pets/{id}"]

    assert item["post"]["requestBody"] == {
        "content": {"application/json": {"schema": {"$ref": "#/definitions/Pet"}}},
        "required": True,
    }
    assert item["put"]["requestBody"]["content"] == {"multipart/form-data": {
        "schema": {"type": "object", "required": ["photo"], "properties": {
            "photo": {"type": "string", "format": "binary"},
            "tags": {"type": "array", "items": {"type": "string"}},
        }},
        "encoding": {"tags": {"style": "pipeDelimited", "explode": False}},
    }}  # fmt: skip


def test_a_response_has_the_media_types_of_its_operation():
    document, _ = _read(PETS)
    item = document["paths"]["/pets/{id}"]

    assert list(item["get"]["responses"]["200"]["content"]) == [
        "application/json", "application/xml",
    ]  # fmt: skip
    assert item["get"]["responses"]["410"] == {"$ref": "#/responses/gone"}
    copied = item["put"]["responses"]["410"]["$ref"].rpartition("/")[2]
    content = document["components"]["responses"][copied]["content"]
    assert list(content) == ["application/problem+json", "application/json"]
    assert content["application/json"]["example"] == {"code": 410}


@pytest.mark.parametrize(
    ("response", "content"),
    [
        ("{schema: {type: string}}", {"*/*": {"schema": {"type": "string"}}}),
        ("{schema: {type: file}}",
         {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}),
        ("{examples: {text/csv: 'a,b'}}", {"text/csv": {"example": "a,b"}}),
        ("{schema: {type: string}, examples: {text/csv: 'a,b'}}",
         {"text/csv": {"schema": {"type": "string"}, "example": "a,b"}}),
        ("{examples: {short: a}}", {"*/*": {"examples": {"short": {"value": "a"}}}}),
        ("{description: none}", None),
    ],
)  # fmt: skip
def test_content_of_a_response_without_produces(response, content):
    document, found = _read(_paths(f"responses: {{200: {response}}}"))

    assert document["paths"]["/a"]["post"]["responses"]["200"].get("content") == content
    assert found == []


@pytest.mark.parametrize(
    ("where", "written", "style"),
    [
        ("query", "", ("form", False)),
        ("query", "csv", ("form", False)),
        ("query", "multi", ("form", True)),
        ("query", "ssv", ("spaceDelimited", False)),
        ("query", "pipes", ("pipeDelimited", False)),
        ("path", "csv", (None, None)),
        ("header", "", (None, None)),
    ],
)
def test_collection_formats_are_styles(where, written, style):
    kind = f", collectionFormat: {written}" if written else ""
    text = f"parameters: [{{name: a, in: {where}, type: array, items: {{type: string}}{kind}}}]"
    (parameter,) = _read(_paths(text))[0]["paths"]["/a"]["post"]["parameters"]

    assert (parameter.get("style"), parameter.get("explode")) == style
    assert parameter["schema"] == {"type": "array", "items": {"type": "string"}}


def test_large_schemas_are_written_once():
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(50)}}
    operation = {
        "produces": [f"application/v{n}+json" for n in range(20)],
        "parameters": [{"in": "body", "name": "b", "schema": wide}],
        "responses": {"200": {"schema": wide}},
    }
    text = json.dumps({"swagger": "2.0", "paths": {"/a/{b}": {"post": operation}}})
    document, found = _read(text)

    assert found == []
    place = document["paths"]["/a/{b}"]["post"]["responses"]["200"]["content"]
    assert place["application/v9+json"]["schema"] == {
        "$ref": "#/paths/~1a~1%7Bb%7D/post/responses/200/schema"
    }
    assert len(json.dumps(document)) < 3 * len(text)
    (operation,) = hydrated({"api/pets.json": text}).typed[0].operations
    assert len(json.loads(examples_of(operation)[0].response.body or "")) == 50


def test_references_lead_to_other_documents_of_swagger_and_to_their_parts():
    one = """\
swagger: "2.0"
paths:
  /shared: {$ref: "deep/parts.yaml#/item"}
  /pets:
    get:
      parameters: [{$ref: "deep/parts.yaml#/params/tags"}, {$ref: "other.yaml#/parameters/body"}]
      responses: {200: {schema: {$ref: "other.yaml#/definitions/Pet"}},
                  404: {$ref: "other.yaml#/responses/none"}}
definitions:
  Here: {type: object, properties: {here: {type: string, example: "yes"}}}
"""
    other = """\
swagger: "2.0"
paths: {}
parameters: {body: {name: b, in: body, schema: {$ref: "#/definitions/Pet"}}}
responses: {none: {schema: {$ref: "#/definitions/Problem"}}}
definitions:
  Pet: {type: object, properties: {name: {type: string, example: Rex}}}
  Problem: {type: object, properties: {code: {type: integer, example: 404}}}
"""
    parts = """\
params:
  tags: {name: tags, in: query, required: true, type: array, items: {type: string}}
item:
  post:
    parameters: [{name: b, in: body, schema: {$ref: "#/shape"}}]
    responses: {200: {schema: {$ref: "../one.yaml#/definitions/Here"}}}
shape: {type: object, properties: {deep: {type: boolean, example: true}}}
"""
    files = {"api/one.yaml": one, "api/other.yaml": other, "api/deep/parts.yaml": parts}
    found = hydrated(files)

    assert found.warnings == []
    shared, pets = found.typed[0].operations
    assert json.loads(examples_of(shared)[0].response.body or "") == {"here": "yes"}
    assert '{"deep": true}' in shared.curl_command
    assert "tags=" in pets.curl_command
    bodies = {each.status: json.loads(each.response.body or "") for each in examples_of(pets)}
    assert bodies == {"200": {"name": "Rex"}, "404": {"code": 404}}


@pytest.mark.parametrize(
    ("operation", "more", "warning"),
    [
        ("parameters: {a: 1}", "", "4:24 /paths/~1a/post/parameters: it must be a list"),
        ("parameters: [7]", "", "4:25 /paths/~1a/post/parameters/0: it must be a mapping"),
        ("parameters: [{name: a, in: cookie}]", "",
         '4:39 /paths/~1a/post/parameters/0/in: "cookie" is not known here; '
         "known: query, header, path, formData, body"),
        ("parameters: [{$ref: '#/parameters/b'}]", "",
         '4:32 /paths/~1a/post/parameters/0: "#/parameters/b" leads to nothing'),
        ("parameters: [{name: a, in: query, type: array, collectionFormat: tsv}]", "",
         '4:77 the collectionFormat "tsv" has no equal in OpenAPI 3'),
        ("parameters: [{name: a, in: body}, {name: b, in: formData, type: string}]", "",
         "4:11 a request has a parameter in body or some in formData, not both"),
        ("responses: [7]", "", "4:23 /paths/~1a/post/responses: it must be a mapping"),
        ("responses: {200: 7}", "", "4:29 /paths/~1a/post/responses/200: it must be a mapping"),
        ("produces: json", "", "4:22 /paths/~1a/post/produces: it must be a list"),
        ("summary: a", "securityDefinitions: {k: {type: bearer}}",
         '5:33 /securityDefinitions/k/type: "bearer" is not known here; '
         "known: basic, apiKey, oauth2"),
        ("summary: a", "securityDefinitions: {k: {type: oauth2, flow: magic}}",
         '5:47 /securityDefinitions/k/flow: "magic" is not known here; '
         "known: implicit, password, application, accessCode"),
        ("summary: a", "parameters: 7", "5:13 /parameters: it must be a mapping"),
    ],
)  # fmt: skip
def test_what_is_broken_is_named_with_its_place(operation, more, warning):
    files = {"api/pets.yaml": _paths(operation, more)}

    found = hydrated(files)

    said = zip(found.warnings, found.details, strict=True)
    assert warning in [f"{line}:{column} {detail}" for (*_, line, column), detail in said]
    assert found.ids("pets") == ["post-a"]


def test_other_versions_of_swagger_are_named():
    found = hydrated({"api/pets.yaml": "swagger: '1.2'\npaths: {}"})

    assert found.codes == ["contract_unsupported"]
    assert found.details == ["Swagger 1.2 is not supported; convert it to OpenAPI 3"]


_BIG = {f"D{n}": {"type": "object", "properties": {"a": {"$ref": f"#/definitions/D{n + 1}"}}}
        for n in range(100_000)}  # fmt: skip
_HUGE = {"schema": {"type": "string"}, "examples": {"a/b": "x" * 2**20}}
HOSTILE: dict[str, dict[str, Any]] = {
    "a hundred thousand definitions": {"definitions": _BIG},
    "a ring of parameters": {
        "parameters": {"a": {"$ref": "#/parameters/b"}, "b": {"$ref": "#/parameters/a"}},
        "paths": {"/x": {"get": {"parameters": [{"$ref": "#/parameters/a"}]}}},
    },
    "a ring of path items": {
        "paths": {"/x": {"$ref": "#/paths/~1y"}, "/y": {"$ref": "#/paths/~1x"}},
    },
    "a path item in itself": {"paths": {"/x": {"$ref": "#/paths"}}},
    "a large response for many media types": {
        "responses": {"r": _HUGE},
        "paths": {f"/{n}": {"get": {"produces": [f"a/{n}"],
                                    "responses": {"200": {"$ref": "#/responses/r"}}}}
                  for n in range(2_000)},
    },
    "a large path item in many places": {
        "x-deep": {"a": {"get": {"responses": {"200": _HUGE}}}},
        "paths": {f"/{n}": {"$ref": "#/x-deep/a"} for n in range(2_000)},
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_hostile_document_costs_little(name):
    files = {
        "api/x.json": json.dumps({"swagger": "2.0", "paths": {}, **HOSTILE[name]}),
        "api/fine.yaml": "{swagger: '2.0', paths: {/fine: {get: {}}}}",
    }
    start = time.process_time()

    found = hydrated(files)
    for surface in found.typed:
        for operation in surface.operations[:20]:
            examples_of(operation)

    assert time.process_time() - start < 20
    assert len(found.warnings) <= MAX_WARNINGS + 1
    assert found.ids("fine") == ["get-fine"]


def test_aliases_are_translated_once():
    text = "swagger: '2.0'\npaths: {}\ndefinitions:\n  a0: &a0 {type: file}\n" + "".join(
        f"  a{n}: &a{n} {{allOf: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 11)
    )
    start = time.process_time()
    document, _ = _read(text)

    assert time.process_time() - start < 5
    assert document["definitions"]["a1"]["allOf"][1] == {"type": "string", "format": "binary"}


KEYS = st.sampled_from(
    """swagger info paths /a get post parameters name in required schema $ref type items format
    collectionFormat consumes produces responses 200 headers examples x-examples x-example
    application/json definitions securityDefinitions flow host basePath schemes properties allOf
    discriminator x-nullable additionalProperties""".split()  # noqa: SIM905
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=6),
    st.sampled_from(["#/paths", "#/parameters/name", "y.json#/a", "body", "formData", "query",
                     "array", "file", "multi", "oauth2", "basic"]),
)  # fmt: skip
DOCUMENTS = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(KEYS, below, max_size=6)),
    max_leaves=30,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, DOCUMENTS, max_size=6), DOCUMENTS)
def test_no_document_raises(document, other):
    files = {
        "api/x.json": json.dumps({**document, "swagger": "2.0"}),
        "api/y.json": json.dumps(other),
    }
    found = hydrated(files)
    for surface in found.typed:
        for operation in surface.operations:
            examples_of(operation)
    json.dumps(found.surfaces)


@pytest.mark.slow
def test_a_public_document_of_swagger_answers_as_its_schemas_say():
    (path,) = npm_files("kubernetes-client", "9.0.0", "lib/specs/swagger-1.13.json.gz")
    content = gzip.decompress(path.read_bytes())
    sources = Sources({"api/k.json": content}, Warnings())
    sources.tree("api/k.json")
    document = sources.documents.value("api/k.json")
    registry = Registry().with_resource(
        "urn:k", Resource.from_contents(document, default_specification=DRAFT202012)
    )
    found = hydrated({"api/k.json": content})
    (surface,) = found.typed

    checked: set[str] = set()
    for operation in surface.operations:
        responses = document["paths"][operation.path][operation.method.lower()]["responses"]
        for answer in examples_of(operation):
            schema = responses[answer.status].get("schema")
            is_json = answer.media_type == "application/json"
            if schema is None or not is_json or str(schema) in checked:
                continue
            checked.add(str(schema))
            schema = json.loads(json.dumps(schema).replace('"#/', '"urn:k#/'))
            validator = OAS30ReadValidator(schema, registry=registry)
            validator.validate(json.loads(answer.response.body or ""))

    assert found.warnings == []
    assert len(surface.operations) == 1_014
    assert len(checked) > 100


CALLED = """\
swagger: "2.0"
securityDefinitions: {user: {type: basic}}
consumes: [application/json]
parameters: {new: {name: pet, in: body, required: true, schema: {$ref: "#/definitions/Pet"}}}
paths:
  /a:
    post:
      security: [{user: []}]
      parameters:
        - $ref: "#/parameters/new"
        - {name: n, in: query, type: integer, maximum: 9, required: true}
        - {name: tags, in: query, type: array, items: {type: string, maxLength: 1},
           collectionFormat: pipes}
      responses: {200: {description: x}}
  /form:
    post:
      consumes: [application/x-www-form-urlencoded]
      parameters: [{name: n, in: formData, type: integer, required: true}]
      responses: {200: {description: x}}
  /any:
    post:
      consumes: []
      parameters: [{$ref: "#/parameters/new"}]
      responses: {200: {description: x}}
definitions:
  Pet: {type: object, required: [name], properties: {name: {type: string, x-nullable: true}}}
"""
JSON = {"content-type": "application/json", "authorization": "Basic dTpw"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("path", "query", "headers", "body", "found"),
    [
        ("/a", "n=1&tags=a|b", JSON, b'{"name": "Rex"}', []),
        ("/a", "n=1", JSON, b'{"name": null}', []),
        ("/a", "n=10", JSON, b'{"name": "Rex"}', ["/query/n"]),
        ("/a", "n=1&tags=a|bb", JSON, b'{"name": "Rex"}', ["/query/tags/1"]),
        ("/a", "", JSON, b'{"name": 7}', ["/query/n", "/body/name"]),
        ("/a", "n=1", {"authorization": "Basic dTpw"}, b"", ["/body"]),
        ("/a", "n=1", {"content-type": "application/json"}, b'{"name": ""}',
         ["/header/Authorization"]),
        ("/form", "", FORM, b"n=1", []),
        ("/form", "", FORM, b"n=x", ["/body/n"]),
        ("/form", "", FORM, b"", ["/body"]),
        ("/any", "", {"content-type": "text/plain"}, b'{"name": "Rex"}', []),
    ],
)  # fmt: skip
def test_calls_are_checked_as_the_document_says(path, query, headers, body, found):
    (surface,) = hydrated({"api/pets.yaml": CALLED}).typed
    operation = next(each for each in surface.operations if each.path == path)
    checks = checks_of(operation)
    assert checks is not None
    request = MockRequest("POST", path, headers=headers, raw_query=query, raw_body=body)

    violation = checks.check(request)

    assert ([each["pointer"] for each in violation.errors] if violation else []) == found
