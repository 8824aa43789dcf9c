"""Contracts and mocks that are meant to hurt: nothing raises, and time and size are bounded."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from surfaces import examples_of
from surfaces.contracts import MAX_OPERATIONS
from surfaces.trees import MAX_WARNINGS
from tests.support.surfaces import hydrated


def _paths(count: int) -> str:
    return json.dumps({"openapi": "3.0.0", "paths": {f"/{n}": {"get": {}} for n in range(count)}})


def _same_id(count: int) -> str:
    paths = {f"/{n}": {"get": {"operationId": "same"}} for n in range(count)}
    return json.dumps({"openapi": "3.0.0", "paths": paths})


_RING = {f"S{n}": {"allOf": [{"$ref": f"#/components/schemas/S{(n + k) % 30}"} for k in range(9)]}
         for n in range(30)}  # fmt: skip
_BODY = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
HOSTILE: dict[str, dict[str, str | bytes]] = {
    "too many operations": {"api/x.json": _paths(MAX_OPERATIONS + 500)},
    "one id many times": {"api/x.json": _same_id(3_000)},
    "a reference to itself": {
        "api/x.yaml": "{openapi: 3.0.0, paths: {/a: {$ref: '#/paths/~1a'}}}",
        "api/y.yaml": "{openapi: 3.0.0, paths: {/a: {$ref: 'y.yaml#/paths/~1a'}}}",
    },
    "a ring of schemas": {
        "api/x.json": json.dumps(
            {
                "openapi": "3.0.0",
                "paths": {f"/{n}": {"post": {"requestBody": _BODY}} for n in range(300)},
                "components": {"schemas": _RING},
            }
        )
    },
    "an alias bomb": {
        "api/x.yaml": "openapi: 3.0.0\na0: &a0 [x, x]\n"
        + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    },
    "deep nesting": {
        "api/x.json": "[" * 100_000,
        "api/y.proto": "message A {" * 5_000,
        "api/z.graphql": "type Query { a: " + "[" * 50_000,
        "api/w.wsdl": "<a>" * 100_000,
        "mock/s/a.cue": "{" * 50_000,
        "mock/s/a.metadata.yaml": "",
    },
    "long names": {
        "api/y.proto": f"package {'p' * 200}; message {'m' * 200_000} {{}}",
        "api/z.proto": "".join(f"message M{n} {{" for n in range(64)) + "message x{}" * 100_000,
    },
    "many imports": {"api/y.proto": 'import "x";\n' * 100_000},
    "many unknown messages": {"api/y.proto": "service A {" + "rpc B(C) returns (D);\n" * 50_000},
    "one example for many operations": {
        "mock/s/big.yaml": "examples: {a: {response: {body: '" + "x" * 1_900_000 + "'}}}",
        **{f"mock/s/{n}.metadata.yaml": f"spec: {{mockPath: mock/s/big.yaml, path: /{n}}}"
           for n in range(200)},
    },
    "long generated values": {
        "mock/s/a.metadata.yaml": "",
        "mock/s/a.yaml": "x: &n {type: array, items: {gen: {kind: string, length: 10000}}}\n"
        "o: &o {type: object, properties: {"
        + ", ".join(f"p{n}: *n" for n in range(300))
        + "}}\nexamples: {"
        + ", ".join(f"e{n}: {{responseSchema: {{body: *o}}}}" for n in range(30))
        + "}",
    },
    "no text": {"api/x.yaml": b"\xff\xfe", "api/x.proto": b"\x00\x01", "mock/s/a.json": b"\xff"},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_hostile_suite_costs_little_and_loses_nothing(name):
    files = {**HOSTILE[name], "api/fine.yaml": "{openapi: 3.0.0, paths: {/fine: {get: {}}}}"}
    start = time.process_time()

    found = hydrated(files)

    assert time.process_time() - start < 20
    assert len(found.warnings) <= MAX_WARNINGS + 1
    assert sum(len(each["operations"]) for each in found.surfaces.values()) <= MAX_OPERATIONS + 512
    assert sum(map(len, map(json.dumps, found.surfaces.values()))) < 7 * 2**20
    if name not in ("too many operations", "one example for many operations"):
        assert "get-fine" in [each["id"] for each in found.surfaces["fine"]["operations"]]


_WIDE = {f"S{n}": {"type": "object", "required": list("abcd"),
                   "properties": {key: {"$ref": f"#/components/schemas/S{(n + at) % 9}"}
                                  for at, key in enumerate("abcd")}} for n in range(9)}  # fmt: skip
_NEVER = {"oneOf": [{"type": "object", "properties": {"k": {"const": n}}, "not": {}}
                    for n in range(40)]}  # fmt: skip
HOSTILE_SCHEMAS: dict[str, dict[str, object]] = {
    "a ring of required members": {"$ref": "#/components/schemas/S0"},
    "alternatives that never suit": {"allOf": [_NEVER] * 8},
    "alternatives in alternatives": {"oneOf": [{"anyOf": [{"oneOf": [_NEVER] * 4}] * 9}] * 9},
    "many items": {"type": "array", "minItems": 10**9, "items": {"type": "array", "minItems": 99}},
    "many members": {"type": "object", "minProperties": 10**9, "additionalProperties": _NEVER},
    "a long text": {"type": "string", "minLength": 10**9, "pattern": "^(a{1,99}){1,99}$"},
    "a pattern": {"type": "string", "pattern": "(" * 400 + "a" + "+)" * 400},
    "itself": {"$ref": "#/components/schemas/R"},
    "nonsense": {"type": 7, "required": "x", "properties": [], "items": 3, "enum": {}, "oneOf": 1,
                 "minimum": "a", "pattern": [], "discriminator": 1, "nullable": "x", "format": []},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(HOSTILE_SCHEMAS))
def test_a_hostile_schema_costs_little_when_it_is_asked_for(name):
    schemas = {**_WIDE, "R": {"$ref": "#/components/schemas/R"}}
    media = {"content": {"application/json": {"schema": HOSTILE_SCHEMAS[name]}}}
    document = {
        "openapi": "3.1.0",
        "paths": {"/a": {"get": {"responses": {"200": media}}}},
        "components": {"schemas": schemas},
    }
    found = hydrated({"api/x.json": json.dumps(document)})
    start = time.process_time()

    (exchange,) = examples_of(found.typed[0].operations[0])

    assert time.process_time() - start < 10
    assert len(exchange.response.body or "") < 2**21


@pytest.mark.slow
def test_twice_the_operations_cost_about_twice_the_time():
    def seconds(count: int) -> float:
        files = {"api/x.json": _paths(count)}
        start = time.process_time()
        hydrated(files)
        return time.process_time() - start

    seconds(100)
    small, large = min(seconds(1_000) for _ in range(3)), min(seconds(4_000) for _ in range(3))
    assert large < 10 * small + 0.2


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=8),
    st.sampled_from(["3.0.0", "rest", "example", "x.yaml", "#/paths", "gen", "200", "body"]),
)  # fmt: skip
KEYS = st.sampled_from(
    """openapi asyncapi info title paths /a get post operationId parameters name in required schema
    $ref requestBody content application/json example examples components channels operations action
    channel messages payload metadata spec surface mockPath adapter dispatcher dispatcherRules
    delayMillis parameterConstraints source pattern fallback mode status body headers state
    transitions onExample set increment delete when from param value request response responseSchema
    type properties items enum gen kind options resolve path compose template const allOf servers
    protocol runtimeUrl resolverUrl""".split()  # noqa: SIM905
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(KEYS, below, max_size=6)),
    max_leaves=25,
)
PATHS = st.sampled_from(
    ["api/x.json", "api/y.json", "mock/s/op.metadata.json", "mock/s/op.json", "mock/s/op.cue",
     "mock/other/a.json"]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(PATHS, DOCUMENTS, min_size=1, max_size=4))
def test_no_document_raises(documents):
    files, start = {}, time.process_time()
    for path, document in documents.items():
        if path == "api/x.json" and isinstance(document, dict):
            document = {"openapi": "3.1.0", **document}  # noqa: PLW2901
        if path == "api/y.json" and isinstance(document, dict):
            document = {"asyncapi": "3.0.0", **document}  # noqa: PLW2901
        files[path] = json.dumps(document)
    json.dumps(hydrated(files).surfaces)
    assert time.process_time() - start < 5


PIECES = r"""service message rpc returns ( ) { } ; A b = 1 stream import "x" package enum oneof map
    < , > repeated // /* */ type Query : Int ! [ ] schema query extend examples responseSchema body
    string int & | * ... @gen(kind=uuid) >=1 =~"a" #D ? <a> </a> <!-- - ' \\""".split()  # noqa: SIM905
WORDS = st.lists(st.sampled_from([*PIECES, "\n"]), max_size=40).map(" ".join)
TEXT_FILES = ["api/a.proto", "api/a.graphql", "api/a.wsdl", "mock/s/a.cue", "api/a.yaml"]


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TEXT_FILES), WORDS | st.text(max_size=60))
@example("api/a.proto", "\ufeffsyntax")
def test_no_text_raises(path, text):
    start = time.process_time()
    json.dumps(hydrated({path: text, "mock/s/a.metadata.yaml": ""}).surfaces)
    assert time.process_time() - start < 5


def test_what_a_run_keeps_is_bounded_and_its_lack_is_a_warning():
    found = hydrated(HOSTILE["one example for many operations"])

    assert "limit_exceeded" in found.codes
    assert found.operation("s", "0")["exchanges"]
    assert len(found.ids("s")) == 200
    assert sum(len(each.operations) for each in found.typed) == 200
