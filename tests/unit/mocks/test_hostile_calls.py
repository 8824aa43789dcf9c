"""Hostile requests and metadata: bounded time, an answer for each, no exception."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.problems import PROBLEMS
from mocks.inspection.explanation import explain
from mocks.model.calls import MockRequest
from mocks.templates.expressions import TemplateInvalid
from mocks.templates.scope import Names
from mocks.templates.templates import BodyTemplate
from tests.support.mocks import mock_of

SPEC = """path: '/pay/{id}', method: POST, parameterConstraints: [
  {name: a.b, source: body, pattern: '^(a+)+$', forward: true}],
  state: {lookupKeyTemplate: '{{request.body.k}}', transitions: [{set: {
  v: '{{request.body.v}}', r: '{{response.body.x[0]}}'}, increment: {n: 1}}]}"""
EXAMPLES = """a: {when: [{from: body, param: 'a.b[0].c', value: '{}'}],
  responseSchema: {body: {type: object, properties: {
  o: {resolve: {path: request.body}}, n: {type: string, resolve: {path: request.body.x}}}}}},
  b: {when: [{from: query, param: s, value: '1'}], requestSchema: {body: {type: array, items:
  {type: array, items: {type: object, properties: {a: {type: integer}}}}}}},
  t: {when: [{from: query, param: s, value: '2'}], responseSchema: {body: {type: object,
  properties: {n: {type: integer, resolve: {path: request.body.n}},
  m: {type: number, template: '{{request.body.n}}'}}}}},
  c: {response: {headers: {X-V: '{{request.body.v}}'}, body: {v: '{{request.body}}'}}}"""
DEEP = b"[" * 900 + b"]" * 900
BODIES = [
    b"", b"\x00", b"\xff\xfe", b"[", b"{" * 100_000, b"[" * 1_000_000, DEEP,
    b'{"a":' * 900 + b"1" + b"}" * 900, b"[" + b"0," * 1_000_000 + b"0]",
    b'{"a": {"b": "' + b"a" * 3_000_000 + b'!"}}', b'{"k": "' + b"k" * 2_000_000 + b'"}',
    b'{"v": "' + b"v" * 3_000_000 + b'"}', b'{"x": ' + DEEP + b"}", b'{"k": {"x": ' + DEEP + b"}}",
    b'"\\ud800"', b'{"v": "\\ud800"}', b"1" * 100_000, b'{"v": 1e400}', b'{"v": -0}', b"NaN",
    b'{"a": [[[]]]}', b'{"a": {"b": [{"c": {}}]}, "x": []}', b"a=" + b"&a=" * 100_000,
    b'{"v": "\xff"}', b'{"\xff": 1}', b'{"k": "\xc3", "a": ["\xff"]}',
    b'{"n": ' + b"9" * 400 + b"}",
    b"{{request.body}}", b'{"v": "a\\r\\nSet-Cookie: b"}',
]  # fmt: skip
MOCKS = mock_of(SPEC, EXAMPLES)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:20]))
@pytest.mark.parametrize("target", ["/pay/1", "/pay/1?s=1", "/pay/1?s=2"])
async def test_any_body_is_answered_in_bounded_time(target, body):
    form = {"content-type": "application/x-www-form-urlencoded"}
    started = time.process_time()
    for headers in ({}, form):
        answer = await MOCKS.call(target, headers=headers, body=body)
        assert answer.status < 500
        assert answer.error_code == "" or PROBLEMS[answer.error_code] == answer.status
        assert all("\n" not in value and "\r" not in value for _, value in answer.headers)
        await MOCKS.explain(target, headers=headers, body=body)
    assert time.process_time() - started < 3


ANYTHING = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANYTHING,
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "k", "v", "x"]), below, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=50, deadline=None)
@given(body=st.binary(max_size=40) | JSON, query=ANYTHING, header=ANYTHING, path=ANYTHING)
async def test_any_request_is_answered(body, query, header, path):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = MockRequest(
        "POST", path, headers={"x": header}, query={"s": query}, params={"id": path},
        raw_body=raw, raw_query=query,
    )  # fmt: skip
    answer = await MOCKS.engine.answer(MOCKS.operation, request)
    assert answer.status < 500
    await explain(MOCKS.engine, MOCKS.operation, request)


async def test_many_conditions_on_a_large_body_read_it_once():
    conditions = ", ".join(
        f"{{from: body, param: 'o.p{number}', value: '{{\"x\"'}}" for number in range(50)
    )
    examples = ", ".join(f"e{number}: {{when: [{conditions}]}}" for number in range(60))
    mocks = mock_of("path: /pay, method: POST", examples)
    inner = b'{"x": [' + b"0," * 2_000 + b"0]}"
    body = b'{"o": {' + b",".join(b'"p%d": %s' % (n, inner) for n in range(50)) + b"}}"
    started = time.process_time()
    assert (await mocks.call("/pay", body=body)).error_code == "mock_no_match"
    assert time.process_time() - started < 1


async def test_large_objects_are_compared_up_to_a_limit():
    rules = ", ".join(f"{{name: {'.'.join('a' * n)}, source: body}}" for n in range(1, 100))
    mocks = mock_of(
        f"path: /pay, method: POST, parameterConstraints: [{rules}]", "a: {response: {body: ok}}"
    )
    body = b'{"a":' * 40 + b"[" + b"1234567," * 500_000 + b"0]" + b"}" * 40
    started = time.process_time()
    assert (await mocks.call("/pay", body=body)).body == b"ok"
    assert time.process_time() - started < 1.5


async def test_an_object_that_is_very_large_is_printed_without_indentation():
    mocks = mock_of(
        "path: /pay, method: POST", "a: {responseSchema: {body: {resolve: {path: request.body}}}}"
    )
    nested = b"[" * 900 + b"0," * 500_000 + b"0" + b"]" * 900
    answer = await mocks.call("/pay", body=nested)
    assert len(answer.body) == len(nested)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("response", "body"),
    [
        ("responseSchema: {body: {type: object, properties: {%s}}}", b'"%s"' % (b"x" * 1_000_000)),
        ("responseSchema: {body: {type: object, properties: {%s}}}", b"[%s0]" % (b"0," * 400_000)),
        ("responseSchema: {body: {type: object, properties: {%s}}}", b"[%s0]" % (b"0," * 30_000)),
        ("response: {headers: {x: '{{request.body}}'}}", b'"%s"' % (b"x" * 20_000)),
        (
            "response: {headers: {"
            + ", ".join(f"x{n}: '{{{{request.body}}}}'" for n in range(100))
            + "}}",
            b'"%s"' % (b"x" * 10_000),
        ),
    ],
)
async def test_a_request_cannot_make_an_answer_that_is_much_larger(response, body):
    values = ", ".join(f"p{n}: {{resolve: {{path: request.body}}}}" for n in range(1_000))
    mocks = mock_of("path: /pay, method: POST", f"a: {{{response.replace('%s', values)}}}")
    started = time.process_time()
    answer = await mocks.call("/pay", body=body)
    assert (answer.status, answer.error_code) == (413, "payload_too_large")
    assert time.process_time() - started < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "examples", "body"),
    [
        ("", "a: {response: {body: '%s'}}" % ("{{request.rawBody}}" * 500), b"x" * 1_000_000),
        ("", "a: {response: {body: '%s'}}" % ("{{request.rawBody}}" * 9), b"x" * 2_000_000),
        ("", "a: {response: {body: {v: '%s'}}}" % ("{{request.body}}" * 500), b"\x01" * 1_000_000),
        (
            "",
            "a: {responseSchema: {body: {type: string, compose: [%s]}}}"
            % ("{resolve: {path: request.body}}, " * 500),
            b"x" * 1_000_000,
        ),
        (
            ", state: {transitions: [{set: {v: '%s'}}]}" % ("{{response.body}}" * 500),
            "a: {response: {body: '{{request.body}}'}}",
            b"x" * 1_000_000,
        ),
    ],
    ids=["text", "few parts", "JSON", "compose", "set"],
)
async def test_what_is_rendered_too_large_is_refused_before_it_is_made(spec, examples, body):
    mocks = mock_of(f"path: /pay, method: POST{spec}", examples)
    tracemalloc.start()
    try:
        answer = await mocks.call("/pay", body=body)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (answer.status, answer.error_code) == (413, "payload_too_large")
    assert most < 64 * 2**20


@pytest.mark.parametrize("body", ["%s", '{"v": "%s"}'], ids=["text", "JSON"])
def test_a_template_without_a_request_is_not_multiplied_either(body):
    names = Names(suite={}, operation={"resolverUrl": "u" * 1_000_000}, execution={})
    tracemalloc.start()
    try:
        with pytest.raises(TemplateInvalid, match="too large"):
            BodyTemplate(body % ("{{operation.resolverUrl}}" * 500), names)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 64 * 2**20


async def test_many_alternatives_of_a_large_blank_body_cost_little():
    text = "||".join(["request.rawBody"] * 2_000)
    mocks = mock_of("path: /pay, method: POST", f"a: {{response: {{body: '{{{{{text}}}}}'}}}}")
    started = time.process_time()
    assert (await mocks.call("/pay", body=b" " * 5_000_000)).status == 200
    assert time.process_time() - started < 1


@pytest.mark.slow
def test_many_texts_that_are_no_expressions_are_compiled_in_linear_time():
    text = json.dumps(["{{'x'}}aa"] * 100_000)
    started = time.process_time()
    template = BodyTemplate(text, Names(suite={}, operation={}, execution={}))
    assert time.process_time() - started < 1.5
    assert template.constant == text.replace("{{'x'}}", "x").encode()


async def test_a_forwarded_value_is_no_longer_than_a_header_may_be():
    rule = "{name: a, source: body, forward: true}"
    mocks = mock_of(f"path: /pay, method: POST, parameterConstraints: [{rule}]", "a: {}")
    answer = await mocks.call("/pay", body=b'{"a": "%s"}' % (b"x" * 20_000))
    assert (answer.status, answer.error_code) == (413, "payload_too_large")


def test_a_header_that_is_too_long_in_the_metadata_is_a_problem_of_the_operation():
    headers = f"{{x: {'y' * 20_000}}}"
    mocks = mock_of("path: /pay, method: POST", f"a: {{response: {{headers: {headers}}}}}")
    broken = mocks.operation.tables.broken
    assert broken is not None
    assert broken.error_code == "mock_metadata_invalid"


@pytest.mark.parametrize("place", ["query", "params", "headers"])
async def test_lone_surrogates_are_refused(place):
    mocks = mock_of(
        "path: '/pay/{id}', method: POST",
        """a: {when: [{from: query, param: none, value: x}]},
        b: {response: {body: {v: '{{request.query.v}}{{request.path.v}}{{request.headers.v}}'}}}""",
    )
    request = MockRequest("POST", "/pay/1")
    setattr(request, place, {"v": "\ud800"})
    answer = await mocks.engine.answer(mocks.operation, request)
    assert (answer.status, answer.error_code) == (400, "mock_request_invalid")
    assert answer.outcome == "rejected"
    explained = await explain(mocks.engine, mocks.operation, request)
    assert explained["error"]["code"] == "mock_request_invalid"
