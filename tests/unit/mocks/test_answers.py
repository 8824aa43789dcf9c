"""Resolution order, status, media type and headers of answers (reference: control-plane 18.2)."""

from __future__ import annotations

import pytest

from mocks.engine.responses import http_status
from mocks.model.calls import CallOutcome
from tests.support.mocks import mock_of, mocks_of

REST = "path: /pay, method: GET"


@pytest.mark.parametrize(
    ("adapter", "status", "body", "http", "grpc"),
    [
        ("rest", "", "x", 200, None),
        ("rest", "status: '201',", "x", 201, None),
        ("rest", "status: 599,", "x", 599, None),
        ("rest", "", "''", 200, None),
        ("async", "", "x", 200, None),
        ("async", "", "''", 202, None),
        ("async", "status: '500',", "''", 500, None),
        ("grpc", "", "x", 200, None),
        ("grpc", "status: '200',", "x", 200, None),
        ("grpc", "status: '0',", "x", 200, 0),
        ("grpc", "status: '5',", "x", 404, 5),
        ("grpc", "status: '16',", "x", 401, 16),
        ("grpc", "status: '404',", "x", 404, None),
    ],
)
async def test_the_status_is_that_of_the_example(adapter, status, body, http, grpc):
    mocks = mock_of(
        f"path: /pay, adapter: {adapter}", f"a: {{response: {{{status} body: {body}}}}}"
    )
    answer = await mocks.call("/pay")
    assert (answer.status, answer.grpc_status) == (http, grpc)


def test_status_codes_of_grpc_have_statuses_of_http():
    assert [http_status(code) for code in range(17)] == [
        200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("response", "media_type"),
    [
        ("body: {a: 1}", "application/json"),
        ("body: [1]", "application/json"),
        ("body: '{\"a\": 1}'", "application/json"),
        ("body: 5", "application/json"),
        ("body: '<a/>'", "application/xml"),
        ("body: '  <a/>'", "application/xml"),
        ("body: plain", "text/plain; charset=utf-8"),
        ("body: '{not json'", "text/plain; charset=utf-8"),
        ("body: ''", ""),
        ("status: '204'", ""),
        ("body: plain, mediaType: text/csv", "text/csv"),
        ("body: plain, headers: {content-type: text/css}", "text/css"),
        ("body: plain, mediaType: text/csv, headers: {content-type: text/css}", "text/csv"),
        ("body: '{{request.rawBody}}'", "application/json"),
        ("body: plain, mediaType: '{{request.headers.accept}}'", "text/x"),
    ],
)
async def test_the_media_type_is_that_of_the_body_unless_it_is_named(response, media_type):
    mocks = mock_of(REST, f"a: {{response: {{{response}}}}}")
    answer = await mocks.call("/pay", headers={"accept": "text/x"}, body=b'{"b": 1}')
    assert answer.media_type == media_type
    assert all(name.lower() != "content-type" for name, _ in answer.headers)


async def test_headers_are_templates_without_line_breaks():
    mocks = mock_of(REST, "a: {response: {headers: {X-Q: 'q={{request.query.q}}', X-Fixed: y}}}")
    answer = await mocks.call("/pay?q=a%0d%0aSet-Cookie:%20b%00%09%C3%A4")
    assert answer.headers == (("X-Q", "q=aSet-Cookie: b\tä"), ("X-Fixed", "y"))


async def test_a_header_whose_name_is_none_is_told_and_left_out():
    text = "operationId: pay\nexamples: {a: {response: {headers: {'bad name': z, X-Fixed: y}}}}"
    mocks = mocks_of({"mock/payments/pay.yaml": text})
    answer = await mocks.call("/pay")
    assert answer.headers == (("X-Fixed", "y"),)
    assert mocks.warnings == ['the example "a": "bad name" is not the name of a header']


async def test_what_no_request_decides_is_made_once():
    mocks = mock_of(REST, "a: {response: {headers: {x: y}, body: {a: '{{suite.id}}'}}}")
    static = mocks.operation.static
    assert static is not None
    assert static.body == b'{\n  "a": "shop"\n}'
    assert await mocks.call("/pay") is static


@pytest.mark.parametrize(
    ("spec", "examples"),
    [
        ("delayMillis: 5", "a: {response: {body: x}}"),
        ("dispatcher: random", "a: {response: {body: x}}"),
        ("parameterConstraints: [{name: q}]", "a: {response: {body: x}}"),
        ("state: {defaults: {a: b}}", "a: {response: {body: x}}"),
        ("delayMillis: 0", "a: {response: {body: '{{request.method}}'}}"),
        ("delayMillis: 0", "a: {response: {headers: {x: '{{request.method}}'}}}"),
        ("delayMillis: 0", "a: {when: [{from: query, param: q, value: 1}]}, b: {}"),
        ("delayMillis: 0", "a: {responseSchema: {body: {gen: {kind: uuid}}}}"),
        ("delayMillis: 0", "a: {requestSchema: {body: {type: object}}}"),
        ("delayMillis: 0", ""),
        ("fallback: {body: '{{request.method}}'}", ""),
        ("fallback: {mode: proxy, proxyUrl: 'http://x/'}", ""),
    ],
)
def test_an_answer_that_depends_on_anything_is_not_static(spec, examples):
    assert mock_of(f"{REST}, {spec}", examples).operation.static is None


@pytest.mark.parametrize(
    ("spec", "examples"),
    [
        ("fallback: {body: x}", ""),
        ("fallback: {mode: proxy, proxyUrl: 'http://x/'}", "a: {}, b: {}"),
        ("dispatcher: example", "a: {responseSchema: {body: {const: x}}}"),
    ],
)
async def test_a_static_answer_is_the_one_that_the_engine_gives(spec, examples):
    mocks = mock_of(f"{REST}, {spec}", examples)
    assert mocks.operation.static is not None
    assert await mocks.call("/pay") == mocks.operation.static


async def test_the_delay_is_said_in_the_answer():
    mocks = mock_of(f"{REST}, delayMillis: 25", "a: {response: {body: x}}")
    assert (await mocks.call("/pay")).delay_ms == 25


async def test_an_operation_with_a_problem_says_so():
    mocks = mocks_of(
        {
            "mock/s/pay.metadata.yaml": f"spec: {{{REST}, fallback: {{mode: nonsense}},"
            " parameterConstraints: [{name: q, required: true}]}",
            "mock/s/pay.yaml": "examples: {a: {response: {body: x}}}",
        }
    )
    answer = await mocks.call("/pay")
    assert (answer.status, answer.error_code) == (500, "mock_metadata_invalid")
    assert "nonsense" in answer.detail
    assert answer.outcome is CallOutcome.ERROR
    assert mocks.operation.static is None


async def test_a_template_beyond_the_limit_is_a_problem_of_the_metadata():
    mocks = mock_of(REST, f"a: {{response: {{body: '{'{{request.method}}' * 1_001}'}}}}")
    answer = await mocks.call("/pay")
    assert (answer.error_code, answer.status) == ("mock_metadata_invalid", 500)


async def test_the_rest_of_a_broken_surface_answers():
    mocks = mocks_of(
        {
            "mock/s/bad.metadata.yaml": "spec: {path: /bad, method: GET, fallback: {mode: x}}",
            "mock/s/good.metadata.yaml": "spec: {path: /good, method: GET}",
            "mock/s/good.yaml": "examples: {a: {response: {body: good}}}",
        }
    )
    assert (await mocks.call("/bad")).status == 500
    assert (await mocks.call("/good")).body == b"good"


async def test_no_match_says_what_was_nearest():
    when = "[{from: query, param: q, value: 1}, {from: query, param: r, value: 2}]"
    mocks = mock_of(REST, f"a: {{when: {when}}}")
    answer = await mocks.call("/pay?q=1")
    assert (answer.status, answer.error_code) == (404, "mock_no_match")
    assert answer.outcome is CallOutcome.NO_MATCH
    assert answer.nearest == {
        "example": "a",
        "conditions": [{"from": "query", "param": "r", "expected": "2", "ok": False}],
    }
