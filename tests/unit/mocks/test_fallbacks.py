"""What answers when no example does (reference: control-plane 18.4)."""

from __future__ import annotations

import pytest

from mocks.engine.engine import proxied_url
from mocks.model.calls import CallOutcome, MockRequest
from mocks.model.ports import ProxyFailed, ProxyRefused
from tests.support.mocks import mock_of, mocks_of

SPEC = "path: '/pay/{id}', method: POST"
STATE = "state: {transitions: [{set: {a: b}}]}"
ONE = "one: {when: [{from: query, param: q, value: 1}], response: {status: '201', body: one}}"


@pytest.mark.parametrize(
    ("fallback", "status", "media_type", "headers", "body"),
    [
        ("{mode: static}", 400, "", (), b""),
        ("{body: none}", 400, "text/plain; charset=utf-8", (), b"none"),
        ("{status: '404', mediaType: text/x, body: '{{request.path.id}}', headers: {x-a: b}}",
         404, "text/x", (("x-a", "b"),), b"7"),
        ("{headers: {x-q: '{{request.query.z}}'}, mediaType: '{{request.query.z}}'}",
         400, "zz", (("x-q", "zz"),), b""),
        ("{status: '{{request.query.s}}'}", 418, "", (), b""),
        ("{body: {error: '{{suite.id}} {{request.path.id}}'}}",
         400, "application/json", (), b'{\n  "error": "shop 7"\n}'),
    ],
)  # fmt: skip
async def test_static_is_a_response_of_templates(fallback, status, media_type, headers, body):
    mocks = mock_of(
        f"{SPEC}, fallback: {fallback}, delayMillis: 50, {STATE}",
        ONE,
    )
    answer = await mocks.call("/pay/7?z=zz&s=418")
    assert (answer.status, answer.media_type) == (status, media_type)
    assert (answer.headers, answer.body) == (headers, body)
    assert (answer.outcome, answer.fallback) == (CallOutcome.FALLBACK, "static")
    assert (answer.example, answer.delay_ms, answer.state_key) == ("", 0, "")
    assert not mocks.state.stored, "static triggers no transition"


async def test_a_status_that_a_template_does_not_give_is_an_error():
    mocks = mock_of(f"{SPEC}, fallback: {{status: '{{{{request.query.s}}}}'}}", ONE)
    for status in ("", "abc", "99", "600", "²²²"):
        answer = await mocks.call(f"/pay/7?s={status}")
        assert (answer.status, answer.error_code) == (500, "mock_metadata_invalid")


async def test_a_fallback_is_not_asked_when_an_example_matches():
    mocks = mock_of(f"{SPEC}, fallback: {{body: none}}", ONE)
    answer = await mocks.call("/pay/7?q=1")
    assert (answer.body, answer.fallback, answer.outcome) == (b"one", "", CallOutcome.EXAMPLE)


async def test_example_answers_as_if_it_were_chosen():
    mocks = mock_of(
        f"""{SPEC}, delayMillis: 50, fallback: {{mode: example, exampleName: one}},
        state: {{lookupKeyTemplate: k,
        transitions: [{{onExample: one, set: {{by: '{{{{match.example}}}}'}}}}]}}""",
        ONE,
    )
    answer = await mocks.call("/pay/7")
    assert (answer.status, answer.body, answer.delay_ms) == (201, b"one", 50)
    assert (answer.example, answer.fallback) == ("one", "example")
    assert (answer.outcome, answer.state_key) == (CallOutcome.FALLBACK, "k")
    assert mocks.state.fields("k") == {"by": "one"}


async def test_an_example_that_does_not_exist_is_a_problem_when_it_is_loaded():
    mocks = mocks_of(
        {
            "mock/s/pay.metadata.yaml": f"spec: {{{SPEC}, fallback: {{exampleName: other}}}}",
            "mock/s/pay.yaml": f"examples: {{{ONE}}}",
        }
    )
    assert (await mocks.call("/pay/7?q=1")).error_code == "mock_metadata_invalid"


async def test_proxy_sends_the_request_and_answers_what_comes_back():
    mocks = mock_of(
        f"""{SPEC}, delayMillis: 50, fallback: {{proxyUrl: 'https://up.example/base/'}},
        state: {{transitions: [{{set: {{a: b}}}}]}}, parameterConstraints: [
        {{name: Authorization, source: header, forward: true}}, {{name: z, forward: true}},
        {{name: Cookie, source: header}}]""",
        ONE,
    )
    headers = {"Authorization": "Basic x", "Cookie": "a=b", "X-Own": "1"}
    answer = await mocks.call("/pay/7?z=1", headers=headers, body=b"text")
    assert mocks.proxy.sent == [
        {
            "url": "https://up.example/base/pay/7?z=1",
            "method": "POST",
            "headers": {name.lower(): value for name, value in headers.items()},
            "body": b"text",
            "let": frozenset({"authorization"}),
        }
    ]
    assert (answer.status, answer.media_type, answer.body) == (299, "text/plain", b"upstream")
    assert ("x-from", "upstream") in answer.headers
    assert ("z", "1") in answer.headers
    assert (answer.outcome, answer.fallback) == (CallOutcome.FALLBACK, "proxy")
    assert (answer.delay_ms, answer.state_key) == (0, "")
    assert not mocks.state.stored


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProxyRefused("the address is private"), "mock_proxy_refused"),
        (ProxyFailed("no connection"), "mock_proxy_failed"),
    ],
)
async def test_a_proxy_that_refuses_or_fails_is_an_error(error, code):
    mocks = mock_of(f"{SPEC}, fallback: {{proxyUrl: 'https://up.example'}}", ONE)
    mocks.proxy.answer = error
    answer = await mocks.call("/pay/7")
    assert (answer.status, answer.error_code, answer.detail) == (502, code, error.detail)
    assert answer.outcome is CallOutcome.ERROR


@pytest.mark.parametrize(
    ("url", "path", "query", "wanted"),
    [
        ("https://up/x", "/pay/7", "", "https://up/x"),
        ("https://up/x", "/pay/7", "a=1&b", "https://up/x?a=1&b"),
        ("https://up/x?own=1", "/pay/7", "a=1", "https://up/x?own=1"),
        ("https://up/x?", "/pay/7", "a=1", "https://up/x?"),
        ("https://up/", "/pay/7", "a=1", "https://up/pay/7?a=1"),
        ("https://up/base/", "/pay/7", "", "https://up/base/pay/7"),
        ("https://up/base/?own=1", "/pay/7", "a=1", "https://up/base/pay/7?own=1"),
        ("https://up/", "/", "", "https://up/"),
        ("https://up/", "//other.example/x", "", "https://up//other.example/x"),
        ("https://up/", "/a%20b%2Fc", "", "https://up/a%20b%2Fc"),
        ("https://up/", "/a b\r\nX: y#f?g@h", "", "https://up/a%20b%0D%0AX:%20y%23f%3Fg@h"),
        ("https://up/", "/a", "q=a b#\r\n", "https://up/a?q=a%20b%23%0D%0A"),
    ],
)
def test_the_address_is_exact_or_a_base_for_the_path(url, path, query, wanted):
    assert proxied_url(url, MockRequest("GET", path, raw_query=query)) == wanted


@pytest.mark.parametrize("path", ["/..", "/a/../../b", "/%2e%2E/b", "/a/.", "/.%2e/b"])
def test_a_path_that_would_leave_the_base_is_refused(path):
    with pytest.raises(ProxyRefused):
        proxied_url("https://up/base/", MockRequest("GET", path))
    assert proxied_url("https://up/base", MockRequest("GET", path))


async def test_no_fallback_is_no_match():
    answer = await mock_of(SPEC, ONE).call("/pay/7")
    assert (answer.status, answer.error_code) == (404, "mock_no_match")
