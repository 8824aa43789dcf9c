"""Every route, header and code of the data plane (reference: control-plane 2, 18.1, 18.2)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from apps.mocks import conf
from mocks.engine.tables import compile_space
from mocks.inspection.explained_calls import ExplainedCall, locate_call
from mocks.model.calls import CallOutcome
from mocks.model.spaces import SpaceName
from tests.support.mock_planes import ChangingSource, Planes, content_of, files, planes

REST = "/mocks/rest/orders/orders"
PROBLEM = "application/problem+json"


@pytest.fixture(params=["by ASGI", "early", "by HTTP/2"])
async def mocks(request: pytest.FixtureRequest) -> AsyncIterator[Planes]:
    way = request.param
    async with planes(asks_early=way == "early", by_http2=way == "by HTTP/2") as made:
        yield made


async def test_a_static_example_comes_with_the_headers_of_the_pipeline(mocks: Planes) -> None:
    """Invariant 30."""
    for _ in range(2):  # the second one is prepared
        answer = await mocks.ask("GET", f"{REST}/orders")

        assert (answer.status_code, answer.json()) == (200, [1, 2])
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-total"] == "2"
        assert answer.headers["content-security-policy"] == "sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-partita-mock-adapter"] == "rest"
        assert answer.headers["x-partita-mock-dispatcher"] == "example"
        assert answer.headers["x-partita-mock-example"] == "all"
        assert answer.headers["x-partita-mock-runtime-url"] == "/mocks/rest/orders/orders/orders"
        assert answer.headers["x-partita-mock-resolver-url"].endswith("/orders/orders/listOrders")
        assert re.fullmatch(
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
            answer.headers["x-request-id"],
        )
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert mocks.counted == [("rest", "example", "example")] * 2
    assert mocks.early.answered == (1 if mocks.application is mocks.early else 0)


async def test_a_request_id_is_taken_when_it_is_well_formed(mocks: Planes) -> None:
    for given, kept in (("abc/1.2_3-4", True), ("no spaces", False), ("x" * 129, False)):
        for _ in range(2):
            answer = await mocks.ask("GET", f"{REST}/orders", headers={"X-Request-Id": given})
            assert (answer.headers["x-request-id"] == given) is kept


async def test_pages_of_any_origin_may_call_without_credentials(mocks: Planes) -> None:
    for _ in range(2):
        answer = await mocks.ask("GET", f"{REST}/orders", headers={"Origin": "https://x.test"})
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-expose-headers"] == "*"
        assert "access-control-allow-credentials" not in answer.headers

    preflight = await mocks.ask(
        "OPTIONS",
        f"{REST}/orders",
        headers={
            "Origin": "https://x.test",
            "Access-Control-Request-Method": "PATCH",
            "Access-Control-Request-Headers": "x-own, authorization",
        },
    )
    assert (preflight.status_code, preflight.content) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "PATCH" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-headers"] == "x-own, authorization"


async def test_head_is_a_get_without_its_body(mocks: Planes) -> None:
    for _ in range(2):
        answer = await mocks.ask("HEAD", f"{REST}/orders")
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-length"] == "12"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/mocks/rest/nowhere/orders/orders", 404, "suite_not_found"),
        ("GET", "/mocks/rest/-bad-/orders/orders", 404, "suite_not_found"),
        ("GET", "/mocks/rest/orders/nowhere/orders", 404, "surface_not_found"),
        ("GET", "/mocks/rest/orders/orders/nowhere", 404, "operation_not_found"),
        ("PATCH", "/mocks/rest/orders/orders/orders", 405, "method_not_allowed"),
        ("GET", "/mocks/rest/orders/orders", 404, "operation_not_found"),
        ("GET", "/mocks/rest/orders@run-9/orders/orders", 404, "space_not_active"),
        ("GET", "/mocks/rest/orders@run-9+pay~x/orders/orders", 404, "space_not_active"),
        ("GET", "/mocks/rest/orders/orders/orders/2", 404, "mock_no_match"),
        ("GET", "/mocks/rest/orders/orders/picky", 400, "mock_constraint_failed"),
        ("POST", "/mocks/grpc/orders/pay/Nothing", 404, "operation_not_found"),
        ("POST", "/mocks/async/orders/pay/Capture", 404, "operation_not_found"),
        ("GET", "/mocks/grpc/orders/pay/Capture", 405, "method_not_allowed"),
        ("PUT", "/mocks/async/orders/events/orderMade", 405, "method_not_allowed"),
        ("POST", "/mocks/ready/orders/orders", 405, "method_not_allowed"),
        ("GET", "/mocks/ready/nowhere/orders", 404, "suite_not_found"),
        ("GET", "/mocks/ready/orders/nowhere", 404, "surface_not_found"),
        ("GET", "/mocks/ready/orders@run-9/orders", 404, "space_not_active"),
        ("GET", "/mocks/ready/orders/orders/more", 404, "not_found"),
        ("GET", "/mocks/", 404, "not_found"),
        ("GET", "/mocks/rest/orders", 404, "not_found"),
        ("GET", "/mocks/soap/orders/orders/x", 404, "not_found"),
        ("GET", "/internal/mock-data/orders/orders", 404, "not_found"),
    ],
)
async def test_what_partita_answers_itself_is_a_problem(
    mocks: Planes, method: str, path: str, status: int, code: str
) -> None:
    answer = await mocks.ask(method, path)

    body = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert (body["status"], body["code"], body["instance"]) == (status, code, path)
    assert body["error"] == body["detail"]
    assert body["requestId"] == answer.headers["x-request-id"]
    assert answer.headers["x-partita-mock-error"] == code
    assert answer.headers["content-security-policy"] == "sandbox"
    assert status != 405 or "POST" in answer.headers["allow"] or "GET" in answer.headers["allow"]


async def test_a_constraint_that_fails_is_told_by_name(mocks: Planes) -> None:
    answer = await mocks.ask("GET", f"{REST}/picky?q=123")

    assert answer.status_code == 400
    assert len(answer.json()["errors"]) == 1
    assert answer.headers["x-partita-mock-adapter"] == "rest"


async def test_grpc_and_asynchronous_operations_are_plain_http(mocks: Planes) -> None:
    paid = await mocks.ask("POST", "/mocks/grpc/orders/pay/Capture", json={"id": "1"})
    refused = await mocks.ask("POST", "/mocks/grpc/orders/pay/Capture", json={"id": "0"})
    seen = await mocks.ask("POST", "/mocks/async/orders/events/orderMade", json={})

    assert (paid.status_code, paid.json()) == (200, {"state": "PAID"})
    assert (refused.status_code, refused.headers["grpc-status"]) == (404, "5")
    assert (seen.status_code, seen.json()) == (200, {"seen": True})
    assert seen.headers["x-partita-mock-adapter"] == "async"


@pytest.mark.parametrize(
    "name", ["Capture", "Payments/Capture", "pay.Payments/Capture", "pay.Payments%2FCapture"]
)
async def test_a_grpc_method_has_three_names_and_one_in_the_journal(
    mocks: Planes, name: str
) -> None:
    paid = await mocks.ask("POST", f"/mocks/grpc/orders/pay/{name}", json={"id": "1"})

    assert (paid.status_code, paid.json()) == (200, {"state": "PAID"})
    (entry,) = mocks.journal.newest("orders")
    assert (entry.method, entry.path) == ("POST", "/pay.Payments/Capture")
    assert entry.operation_id == "Capture"


@pytest.mark.parametrize(
    "named",
    [
        {"operation_id": "Capture"},
        {"operation_id": "Payments/Capture"},
        {"operation_id": "pay.Payments/Capture"},
        {"method": "POST", "path": "/pay.Payments/Capture"},
        {"method": "POST", "path": "Payments/Capture"},
    ],
)
def test_a_grpc_call_is_explained_as_the_journal_names_it(named: dict[str, Any]) -> None:
    space = compile_space(content_of(files()), SpaceName("orders"))
    operation, request = locate_call(space, ExplainedCall(surface_id="pay", **named))

    assert operation.operation.operation_id == "Capture"
    assert (request.method, request.path) == ("POST", "/pay.Payments/Capture")


async def test_state_changes_and_headers_tell_of_it(mocks: Planes) -> None:
    first = await mocks.ask("POST", f"{REST}/orders", json={}, headers={"X-Tenant": "acme"})
    second = await mocks.ask("POST", f"{REST}/orders", json={})

    assert [first.json()["made"], second.json()["made"]] == ["0", "1"]
    assert (first.status_code, first.headers["x-partita-mock-state-key"]) == (201, "orders")
    assert first.headers["x-tenant"] == "acme"
    record = await mocks.state.read("orders", "orders")
    assert record is not None
    assert record.fields == {"count": "2"}


async def test_runs_and_the_shared_space_never_see_one_another(mocks: Planes) -> None:
    """Invariant 29."""
    for space in ("orders", "orders@run-1"):
        answer = await mocks.ask("POST", f"/mocks/rest/{space}/orders/orders", json={})
        assert answer.json()["made"] == "0"
    assert len(await mocks.journal.entries("orders")) == 1
    assert len(await mocks.journal.entries("orders@run-1")) == 1


async def test_no_example_sets_cookies_or_policies_on_the_host_of_the_pages() -> None:
    """Invariant 30."""
    async with planes(site_hosts=frozenset({"partita.test"})) as mocks:
        theirs = await mocks.ask("DELETE", f"{REST}/orders/1")
        for host in ({"Host": "Partita.TEST:8090"}, {"X-Forwarded-Host": "partita.test"}):
            ours = await mocks.ask("DELETE", f"{REST}/orders/1", headers=host)
            assert ours.headers["x-own"] == "kept"
            for name in ("set-cookie", "clear-site-data", "service-worker-allowed"):
                assert name in theirs.headers
                assert name not in ours.headers
            assert "strict-transport-security" not in ours.headers
        assert theirs.headers.get_list("content-security-policy") == ["sandbox"]
        assert theirs.headers.get_list("x-partita-mock-example") == ["gone"]


@pytest.mark.parametrize(
    ("value", "is_sent"),
    [
        ("theirs=1; Path=/", True),
        ("theirs=partita_session", True),
        ("partita_session=fixed; Path=/", False),
        (" =partita_session=fixed", False),  # without a name: sent back as if it had one
        ("partita_\\u0001session=fixed", False),  # control characters do not go out
    ],
)
async def test_no_example_sets_a_cookie_of_partita_on_any_host(value: str, is_sent: bool) -> None:
    """Invariant 30."""
    example = f'examples: {{gone: {{response: {{headers: {{Set-Cookie: "{value}", X-A: b}}}}}}}}'
    source = ChangingSource()
    source.contents["orders"] = content_of(files(cookieOrder=example))
    async with planes(source, own_cookies=frozenset({"partita_session"})) as mocks:
        answer = await mocks.ask("DELETE", f"{REST}/orders/1")
        assert answer.headers["x-a"] == "b"
        assert ("set-cookie" in answer.headers) == is_sent
        document = (await mocks.ask("GET", "/internal/mock-data/orders/orders/cookieOrder")).json()
        assert ("set-cookie" in map(str.lower, document["headers"])) == is_sent


async def test_a_long_url_of_the_metadata_makes_no_huge_header() -> None:
    example = f"spec: {{resolverUrl: 'http://a.test/{'u' * 100_000}'}}\nexamples: {{a: {{}}}}"
    source = ChangingSource()
    source.contents["orders"] = content_of(files(listOrders=example))
    async with planes(source) as mocks:
        answer = await mocks.ask("GET", f"{REST}/orders")
        assert answer.status_code == 200
        assert len(answer.headers["x-partita-mock-resolver-url"]) == 8_192


def test_every_name_of_this_machine_is_a_host_of_the_pages(settings: Any) -> None:
    settings.PUBLIC_API_URL, settings.FRONTEND_URLS = "http://localhost:8090", []
    assert conf.site_hosts() == {"localhost", "127.0.0.1", "::1"}
    settings.PUBLIC_API_URL, settings.FRONTEND_URLS = "https://a.test", ["https://b.test:444"]
    assert conf.site_hosts() == {"a.test", "b.test"}


async def test_partitas_own_cookies_and_secret_reach_no_mock() -> None:
    async with planes(own_cookies=frozenset({"partita_session"}), secret="s3cret-word") as mocks:
        headers = {
            "Cookie": "partita_session=hunter; theirs=1; csrf=2",
            "X-Partita-Mock-Secret": "s3cret-word",
        }
        answer = await mocks.ask("GET", f"{REST}/picky?q=a%20b", headers=headers)
        assert answer.status_code == 400
        answer = await mocks.ask("GET", f"{REST}/picky?q=ab", headers=headers)

        assert answer.json() == {"cookies": "theirs=1; csrf=2", "secret": "", "q": "ab"}
        [entry, _] = await mocks.journal.entries("orders")
        assert "x-partita-mock-secret" not in entry.request_headers
        assert "hunter" not in json.dumps(dict(entry.request_headers))


async def test_the_secret_opens_shared_spaces_and_the_resolver() -> None:
    async with planes(secret="s3cret-word") as mocks:
        resolver = "/internal/mock-data/orders@run-1/orders/listOrders"
        right = {"X-Partita-Mock-Secret": "s3cret-word"}
        for path in (f"{REST}/orders", "/mocks/ready/orders/orders", resolver):
            for headers in ({}, {"X-Partita-Mock-Secret": "s3cret-wore"}):
                answer = await mocks.ask("GET", path, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (401, "mock_secret_required")
                assert answer.headers["www-authenticate"] == "Bearer"
            assert (await mocks.ask("GET", path, headers=right)).status_code == 200
            assert (await mocks.ask("GET", path)).status_code == 401  # prepared answers, too
        own = await mocks.ask("GET", "/mocks/rest/orders@run-1/orders/orders")
        assert own.status_code == 200


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_beyond_the_limit_is_refused(mocks: Planes, declared: bool) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(12):
            yield b"x" * 2**20

    content: Any = b"x" * (10 * 2**20 + 1) if declared else endless()
    answer = await mocks.ask("POST", f"{REST}/orders", content=content)

    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert (await mocks.ask("POST", f"{REST}/orders", content=b"x" * 2**20)).status_code == 201


async def test_a_draining_server_refuses() -> None:
    draining: list[bool] = []
    async with planes(is_draining=lambda: bool(draining)) as mocks:
        assert (await mocks.ask("GET", f"{REST}/orders")).status_code == 200
        draining.append(True)
        for path in (
            f"{REST}/orders",
            f"{REST}/orders/1",
            "/mocks/ready/orders/orders",
            "/mocks/x",
        ):
            answer = await mocks.ask("GET", path)
            assert (answer.status_code, answer.json()["code"]) == (503, "shutting_down")
            assert int(answer.headers["retry-after"]) > 0


async def test_a_delay_holds_up_nobody_else(mocks: Planes) -> None:
    began = time.monotonic()
    slow = asyncio.create_task(mocks.ask("PUT", f"{REST}/orders/1", json={}))
    await asyncio.sleep(0)
    quick = [await mocks.ask("GET", f"{REST}/orders") for _ in range(2)]

    assert not slow.done()
    assert {each.status_code for each in quick} == {200}
    assert (await slow).json() == {"late": True}
    assert time.monotonic() - began >= 1


async def test_a_delay_ends_when_the_client_leaves(mocks: Planes) -> None:
    sent: list[Any] = []
    messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b""}]

    async def receive() -> Any:
        return messages.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    path = f"{REST}/orders/1"
    scope = {"type": "http", "method": "PUT", "path": path, "raw_path": path.encode()}
    began = time.process_time()
    await mocks.plane(
        {**scope, "query_string": b"", "headers": [(b"content-length", b"0")]}, receive, send
    )

    assert sent == []
    assert time.process_time() - began < 0.4


async def test_an_answer_without_a_body_has_no_length(mocks: Planes) -> None:
    answer = await mocks.ask("GET", f"{REST}/empty")

    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-length" not in answer.headers
    assert "content-type" not in answer.headers


async def test_an_operation_that_cannot_be_compiled_is_an_internal_error(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its answer is looked for before the fault barrier as well."""

    def break_down(*_arguments: object) -> None:
        raise ZeroDivisionError("hunter2")

    await mocks.ask("GET", f"{REST}/orders/1")  # makes the surface known
    monkeypatch.setattr("mocks.engine.tables.Candidates", break_down)
    answer = await mocks.ask("GET", f"{REST}/orders")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "hunter2" not in answer.text
    assert answer.headers["x-request-id"] in caplog.text


async def test_a_fault_is_an_internal_error_that_tells_nothing(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_down(*_arguments: object) -> None:
        raise ZeroDivisionError("hunter2")

    monkeypatch.setattr(type(mocks.plane._setup.engine), "answer", break_down)
    answer = await mocks.ask("GET", f"{REST}/orders/1")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "hunter2" not in answer.text
    assert answer.headers["x-request-id"] in caplog.text
    assert mocks.counted == [("rest", "example", "error")]


async def test_paths_are_decoded_and_segments_stay_apart(mocks: Planes) -> None:
    same = await mocks.ask("GET", "/mocks/rest/orders%40run-1/orders/orders/%31")
    other = await mocks.ask("GET", f"{REST}/orders/1%2F2")

    assert same.json() == {"id": 1}
    assert other.json()["code"] == "mock_no_match"


async def test_the_journal_has_what_was_asked_and_how_it_was_answered(mocks: Planes) -> None:
    await mocks.ask("GET", f"{REST}/orders")
    await mocks.ask("GET", f"{REST}/orders/7", headers={"Authorization": "Basic hunter"})
    body = b"hunter2" + b"x" * 20_000
    await mocks.ask("POST", f"{REST}/orders", content=body, headers={"X-Partita-Step-Id": "buy"})
    await mocks.ask("GET", f"{REST}/nowhere")

    entries = await mocks.journal.entries("orders")
    assert [each.operation_id for each in entries] == ["", "createOrder", "getOrder", "listOrders"]
    nowhere, created, unmatched, listed = entries
    assert (listed.outcome, listed.status, listed.path) == (CallOutcome.EXAMPLE, 200, "/orders")
    assert unmatched.outcome is CallOutcome.NO_MATCH
    assert unmatched.request_headers["authorization"] == "***"
    assert unmatched.nearest is not None
    assert unmatched.nearest["example"] == "one"
    assert nowhere.nearest is not None
    assert created.request_body.startswith("***xxx")
    assert len(created.request_body) < 16_400
    assert (created.step_id, created.state_key) == ("buy", "orders")
    assert len({each.id for each in entries}) == 4


async def test_a_gateway_gets_the_answer_as_a_document(mocks: Planes) -> None:
    answer = await mocks.ask("GET", "/internal/mock-data/orders/orders/listOrders")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {
        "status": 200,
        "mediaType": "application/json",
        "headers": {"X-Total": ["2"]},
        "body": json.dumps([1, 2], indent=2),
        "adapter": "rest",
        "dispatcher": "example",
        "resolverUrl": "/internal/mock-data/orders/orders/listOrders",
        "runtimeUrl": "/mocks/rest/orders/orders/orders",
        "matchedExample": "all",
    }


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("", {"X-Partita-Original-Path": "/orders/1"}),
        ("", {"X-Partita-Original-Path": "/mocks/rest/orders/orders/orders/1?x=1"}),
        ("?_path=/orders/1", {}),
        ("?_path=orders%2F1", {"X-Partita-Original-Method": "get"}),
    ],
)
async def test_a_gateway_names_the_original_call(
    mocks: Planes, path: str, headers: dict[str, str]
) -> None:
    url = f"/internal/mock-data/orders/orders/getOrder{path}"
    answer = await mocks.ask("POST", url, headers=headers)

    assert answer.json()["matchedExample"] == "one"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("orders/orders/getOrder?_path=/orders/2", 404, "mock_no_match"),
        ("orders/orders/nothing", 404, "operation_not_found"),
        ("orders/nothing/getOrder", 404, "surface_not_found"),
        ("nothing/orders/getOrder", 404, "suite_not_found"),
        ("orders@run-9/orders/getOrder", 404, "space_not_active"),
        ("orders/orders/pickyOrder", 400, "mock_constraint_failed"),
    ],
)
async def test_a_gateway_gets_errors_as_documents_too(
    mocks: Planes, path: str, status: int, code: str
) -> None:
    answer = await mocks.ask("GET", f"/internal/mock-data/{path}")

    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["error"]["code"]) == (status, code)


async def test_readiness_counts_the_operations(mocks: Planes) -> None:
    answer = await mocks.ask("GET", "/mocks/ready/orders/orders")

    assert (answer.status_code, answer.json()) == (200, {"ready": True, "operations": 7})
    assert mocks.counted == []


async def test_a_fallback_names_its_mode() -> None:
    changed = {
        "getOrder": """
spec:
  fallback: {mode: static, status: "418", mediaType: text/plain, body: "no {{request.path.id}}"}
examples:
  one: {when: [{from: path, param: id, value: "1"}], response: {body: {id: 1}}}
"""
    }
    source = ChangingSource("orders")
    source.contents["orders"] = content_of(files(**changed))
    async with planes(source) as mocks:
        answer = await mocks.ask("GET", f"{REST}/orders/7")

    assert (answer.status_code, answer.text) == (418, "no 7")
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["x-partita-mock-fallback"] == "static"
    assert "x-partita-mock-example" not in answer.headers
    assert mocks.counted == [("rest", "example", "fallback")]


async def test_a_script_that_cannot_run_is_an_error_of_the_mock() -> None:
    changed = {
        "getOrder": """
spec: {dispatcher: script, dispatcherRules: '"one"'}
examples: {one: {response: {body: {id: 1}}}}
"""
    }
    source = ChangingSource("orders")
    source.contents["orders"] = content_of(files(**changed))
    async with planes(source) as mocks:
        answer = await mocks.ask("GET", f"{REST}/orders/7")

    assert (answer.status_code, answer.json()["code"]) == (500, "mock_script_failed")
    assert answer.headers["x-partita-mock-dispatcher"] == "script"
    assert mocks.counted == [("rest", "script", "error")]


NEGOTIATED = """
openapi: 3.0.3
info: {title: Docs, version: "1"}
paths:
  /docs/{id}:
    get:
      operationId: getDoc
      responses:
        "200":
          description: ok
          content:
            application/json: {example: {a: 1}}
            application/xml: {example: <a/>}
            image/png: {}
        "404": {description: none, content: {application/json: {example: {gone: true}}}}
    delete: {operationId: dropDoc, responses: {"204": {description: gone}}}
  /own:
    options:
      operationId: ownOptions
      responses: {"200": {description: ok, content: {application/json: {example: {own: 1}}}}}
"""
DOCS = "/mocks/rest/orders/docs"


@pytest.fixture
async def docs() -> AsyncIterator[Planes]:
    source = ChangingSource("orders")
    source.contents["orders"] = content_of({"api/docs.openapi.yaml": NEGOTIATED.encode()})
    async with planes(source) as made:
        yield made


@pytest.mark.parametrize(
    ("accept", "media_type", "body"),
    [
        ("*/*", "application/json", b'{\n  "a": 1\n}'),
        ("application/xml", "application/xml", b"<a/>"),
        ("text/html, application/xml;q=0.9, */*;q=0.8", "application/xml", b"<a/>"),
    ],
)
async def test_accept_chooses_on_every_way(docs: Planes, accept, media_type, body) -> None:
    """The second answer is a ready one, the third goes to the engine."""
    for more in ({}, {}, {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}):
        answer = await docs.ask("GET", f"{DOCS}/docs/7", headers={"accept": accept, **more})
        assert (answer.status_code, answer.content) == (200, body)
        assert answer.headers["content-type"] == media_type
        assert answer.headers["vary"] == "Accept"
        head = await docs.ask("HEAD", f"{DOCS}/docs/7", headers={"accept": accept, **more})
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(body))


async def test_several_accept_headers_are_one_list(docs: Planes) -> None:
    await docs.ask("GET", f"{DOCS}/docs/7")
    several = [("accept", "application/xml"), ("accept", "application/json;q=0.5")]
    answer = await docs.ask("GET", f"{DOCS}/docs/7", headers=several)
    assert answer.headers["content-type"] == "application/xml"


async def test_what_nothing_suits_and_what_is_not_there_are_problems(docs: Planes) -> None:
    for _ in range(2):
        answer = await docs.ask("GET", f"{DOCS}/docs/7", headers={"accept": "text/csv"})
        assert answer.headers["content-type"] == PROBLEM
        assert (answer.status_code, answer.json()["code"]) == (406, "not_acceptable")
        assert "application/json, application/xml, image/png" in answer.json()["detail"]
        missing = await docs.ask("GET", f"{DOCS}/docs/7?__code=500")
        assert (missing.status_code, missing.json()["code"]) == (404, "mock_no_match")
        assert missing.json()["detail"].endswith("there is 200, 404")
        assert docs.journal.newest("orders")[0].nearest is None  # the call suits all conditions


async def test_prefer_and_the_query_choose_after_a_ready_answer(docs: Planes) -> None:
    for _ in range(2):
        assert (await docs.ask("GET", f"{DOCS}/docs/7")).json() == {"a": 1}
        for asked in ({"headers": {"Prefer": "code=404"}}, {"params": {"__code": "404"}}):
            answer = await docs.ask("GET", f"{DOCS}/docs/7", **asked)
            assert (answer.status_code, answer.json()) == (404, {"gone": True})
            assert answer.headers["x-partita-mock-example"] == "404"


async def test_a_picture_without_an_example_is_one(docs: Planes) -> None:
    answer = await docs.ask("GET", f"{DOCS}/docs/7", headers={"accept": "image/*"})
    assert answer.headers["content-type"] == "image/png"
    assert answer.content[:8] == b"\x89PNG\r\n\x1a\n"


async def test_options_without_an_origin_is_declared_or_lists_the_methods(docs: Planes) -> None:
    listed = await docs.ask("OPTIONS", f"{DOCS}/docs/7")
    assert (listed.status_code, listed.content) == (204, b"")
    assert listed.headers["allow"] == "GET, HEAD, DELETE, OPTIONS"
    assert "access-control-allow-methods" not in listed.headers
    assert (await docs.ask("OPTIONS", f"{DOCS}/own")).json() == {"own": 1}
    assert (await docs.ask("OPTIONS", f"{DOCS}/nowhere")).status_code == 404
    preflight = await docs.ask("OPTIONS", f"{DOCS}/own", headers={"origin": "https://x.test"})
    assert preflight.headers["access-control-allow-methods"]


async def test_the_resolver_negotiates_as_well(docs: Planes) -> None:
    path = "/internal/mock-data/orders/docs/getDoc"
    answer = await docs.ask("GET", path, headers={"accept": "application/xml"})
    assert (answer.json()["mediaType"], answer.json()["body"]) == ("application/xml", "<a/>")
