"""Schema examples: the values of nodes (reference: control-plane 6.3)."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from kernel import clock
from tests.support.mocks import mock_of

SPEC = "path: '/pay/{id}', method: POST"
REQUEST = b'{"n": 10, "s": "12", "b": true, "o": {"k": [1]}, "l": [1], "none": null, "f": 1.5}'


async def made(node: str, *, body: bytes = REQUEST) -> Any:
    """Return the value of a node as the member `v` of an object."""
    schema = f"{{type: object, properties: {{v: {{{node}}}}}}}"
    mocks = mock_of(SPEC, f"a: {{responseSchema: {{body: {schema}}}}}")
    answer = await mocks.call("/pay/7?q=Ada", body=body)
    assert answer.error_code == "", answer.detail
    return json.loads(answer.body)["v"]


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("type: string", ""),
        ("type: integer", 0),
        ("type: number", 0.0),
        ("type: boolean", False),
        ("type: 'null'", None),
        ("type: object", {}),
        ("type: array", []),
        ("type: array, items: {type: string, example: a}", ["a"]),
        ("type: array, items: {type: object, properties: {x: {type: integer}}}", [{"x": 0}]),
        ("type: object, properties: {x: {const: 1}, y: {}}", {"x": 1, "y": ""}),
        ("properties: {x: {type: integer}}", {"x": 0}),
        ("type: integer, enum: [3, 4]", 3),
        ("type: integer, enum: [3], example: 5", 5),
        ("type: integer, enum: [3], example: 5, const: 6", 6),
        ("type: integer, const: 6, template: '7'", 7),
        ("const: null, type: 'null'", None),
        ("const: {a: [1]}", {"a": [1]}),
        ("const: false, type: boolean", False),
        ("type: string, const: 5", "5"),
        ("type: integer, example: '5'", 5),
        ("type: array, example: [1, 2]", [1, 2]),
    ],
)
async def test_the_key_comes_first_then_const_example_enum_and_the_type(node, wanted):
    assert await made(node) == wanted
    assert type(await made(node)) is type(wanted)


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("resolve: {path: request.body.n}", 10),
        ("resolve: {path: request.body.o}", {"k": [1]}),
        ("type: string, resolve: {path: request.body.n}", "10"),
        ("type: string, resolve: {path: request.body.b}", "true"),
        ("type: string, resolve: {path: request.body.o}", '{\n  "k": [\n    1\n  ]\n}'),
        ("type: object, resolve: {path: request.body.o}", {"k": [1]}),
        ("type: array, resolve: {path: request.body.l}", [1]),
        ("type: number, resolve: {path: request.body.s}", 12),
        ("type: number, resolve: {path: request.body.f}", 1.5),
        ("type: integer, resolve: {path: request.path.id}", 7),
        ("type: boolean, resolve: {path: request.body.b}", True),
        ("type: string, resolve: {path: request.query.q, prefix: '<', suffix: '>'}", "<Ada>"),
        ("type: string, resolve: {path: request.query.x, fallback: you, prefix: 'to '}", "to you"),
        ("type: number, resolve: {path: request.body.x, fallback: '0'}", 0),
        ("type: string, resolve: {path: request.body.none, fallback: x}", "x"),
        ("type: number, resolve: {path: request.body.x}", 0.0),
        ("type: number, example: 3, resolve: {path: request.body.x}", 3),
        ("type: string, enum: [e], resolve: {path: request.body.x, prefix: p}", "e"),
        ("type: string, resolve: {path: suite.id}", "shop"),
        ("type: string, resolve: {path: state.nothing, fallback: f}", "f"),
        ("type: string, resolve: {path: operation.id, prefix: p-}", "p-pay"),
    ],
)
async def test_resolve_reads_a_value_or_takes_what_stands_in(node, wanted):
    assert await made(node) == wanted


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("compose: [P-, {resolve: {path: request.path.id}}, -, {gen: {kind: pick, options: [z]}}]",
         "P-7-z"),
        ("type: integer, compose: [1, {resolve: {path: request.path.id}}]", 17),
        ("type: string, compose: []", ""),
        ("template: 'Hello {{request.query.q || request.query.x}}'", "Hello Ada"),
        ("type: integer, template: '{{request.body.n}}'", 10),
        ("type: integer, template: '{{request.body.x}}'", 0),
        ("type: boolean, template: 'TRUE'", True),
        ("type: object, template: '{\"a\": 1}'", {"a": 1}),
        ("type: array, template: '{{request.body.l}}'", [1]),
        ("type: 'null', template: ''", None),
        ("template: '{{request.path.id}}'", "7"),
    ],
)  # fmt: skip
async def test_compose_and_template_make_texts_of_the_type(node, wanted):
    assert await made(node) == wanted


@pytest.mark.parametrize(
    ("gen", "pattern"),
    [
        ("kind: uuid", r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
        ("kind: string", r"[A-Za-z0-9]{12}"),
        ("kind: string, length: 3, prefix: pay_, suffix: '!'", r"pay_[A-Za-z0-9]{3}!"),
        ("kind: string, length: 0", ""),
        ("kind: pick, options: [a, b]", "a|b"),
        ("kind: int, min: -3, max: -1, prefix: n", "n-[123]"),
        ("kind: boolean, prefix: is-", "is-(true|false)"),
        ("kind: timestamp", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"),
    ],
)
async def test_generators_make_texts(gen, pattern):
    assert re.fullmatch(pattern, str(await made(f"type: string, gen: {{{gen}}}")))


async def test_generators_make_numbers_and_booleans():
    assert await made("type: integer, gen: {kind: int, min: 5, max: 5}") == 5
    assert await made("gen: {kind: int, min: 5, max: 5}") == 5
    assert await made("type: string, gen: {kind: int, min: 5, max: 5}") == "5"
    assert await made("type: integer, gen: {kind: int, min: 5, max: 5, prefix: '1'}") == 15
    assert 0 <= await made("type: integer, gen: {kind: int}") <= 2**31 - 1
    assert await made("type: boolean, gen: {kind: boolean}") in (True, False)
    assert await made("type: number, gen: {kind: pick, options: ['2.5']}") == 2.5


async def test_a_timestamp_has_the_layout_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC))
    layout = "dd.MM.yyyy HH:mm:ss,SSS"
    assert await made(f"gen: {{kind: timestamp, layout: '{layout}'}}") == "04.03.2026 05:06:07,089"
    assert await made("gen: {kind: timestamp}") == "2026-03-04T05:06:07.089Z"


async def test_generated_values_differ_from_call_to_call():
    mocks = mock_of(SPEC, "a: {responseSchema: {body: {gen: {kind: uuid}}}}")
    answers = {(await mocks.call("/pay/1")).body for _ in range(20)}
    assert len(answers) == 20


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("integer", "request.query.q"),
        ("integer", "request.body.f"),
        ("number", "request.body.b"),
        ("boolean", "request.body.n"),
        ("object", "request.body.l"),
        ("array", "request.body.o"),
        ("'null'", "request.body.n"),
        ("object", "request.query.q"),
    ],
)
async def test_what_cannot_be_of_the_type_is_an_error_with_its_pointer(kind, path):
    schema = f"type: object, properties: {{'a/b': {{type: {kind}, resolve: {{path: {path}}}}}}}"
    mocks = mock_of(SPEC, f"a: {{responseSchema: {{body: {{{schema}}}}}}}")
    answer = await mocks.call("/pay/7?q=Ada", body=REQUEST)
    assert (answer.status, answer.error_code) == (400, "mock_request_invalid")
    assert [each["pointer"] for each in answer.errors] == ["/a~1b"]
    assert "Ada" not in answer.detail


@pytest.mark.parametrize("text", ["9" * 400, "1e999", "NaN", "Infinity", "0x1", "1_0", "\u0661"])
async def test_no_text_makes_a_number_that_json_has_not(text):
    schema = "type: object, properties: {v: {type: number, resolve: {path: request.body}}}"
    mocks = mock_of(SPEC, f"a: {{responseSchema: {{body: {{{schema}}}}}}}")
    answer = await mocks.call("/pay/7", body=json.dumps(text).encode())
    assert answer.error_code == "mock_request_invalid"


@pytest.mark.parametrize(
    ("node", "body", "media_type"),
    [
        ("{type: object, properties: {a: {const: 1}}}", b'{\n  "a": 1\n}', "application/json"),
        ("{type: array, items: {const: 1}}", b"[\n  1\n]", "application/json"),
        ("{type: string, const: plain}", b"plain", "text/plain; charset=utf-8"),
        ("{type: integer, const: 5}", b"5", "application/json"),
        ("{type: boolean, const: true}", b"true", "application/json"),
        ("{type: 'null'}", b"null", "application/json"),
    ],
)
async def test_objects_and_arrays_are_printed_as_json_over_lines(node, body, media_type):
    mocks = mock_of(SPEC, f"a: {{responseSchema: {{body: {node}}}}}")
    answer = await mocks.call("/pay/7")
    assert (answer.body, answer.media_type) == (body, media_type)


async def test_headers_of_a_schema_are_texts_and_literal_ones_come_first():
    mocks = mock_of(
        SPEC,
        """a: {response: {headers: {X-A: literal}, body: ok}, responseSchema: {headers: {
        type: object, properties: {x-a: {const: schema}, x-n: {type: integer, const: 5},
        x-q: {resolve: {path: request.query.q}}, Content-Type: {const: text/x}}}}}""",
    )
    answer = await mocks.call("/pay/7?q=a%0d%0aSet-Cookie:%20b")
    assert answer.headers == (("X-A", "literal"), ("x-n", "5"), ("x-q", "aSet-Cookie: b"))
    assert answer.media_type == "text/x"


async def test_the_same_seed_of_the_engine_generates_the_same_values():
    schema = "{responseSchema: {body: {gen: {kind: uuid}}}}"
    first, second = mock_of(SPEC, f"a: {schema}"), mock_of(SPEC, f"a: {schema}")
    first.engine.rng = random.Random(5)
    second.engine.rng = random.Random(5)
    assert (await first.call("/pay/1")).body == (await second.call("/pay/1")).body
