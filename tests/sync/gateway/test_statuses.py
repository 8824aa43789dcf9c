"""Every status and code, over real HTTP and a real gRPC server (reference: sync-stack 2.4)."""

from __future__ import annotations

import asyncio
import json
import re

import grpc
import pytest

from sync_stack.core.bundle.model import Rate, SchemaRegistry
from sync_stack.core.bundle.secrets import SecretRef
from tests.support.webhooks import github_examples, github_push, platform, signed
from tests.sync.gateway.world import Orchestrator, answer, bundle, limits, raw, world


async def test_a_push_is_forwarded_byte_for_byte_and_answered_with_its_task():
    async with world() as gw:
        body = github_push()
        response = await gw.send(
            body, headers={"X-Correlation-ID": "abc-1", "Authorization": "x", "Cookie": "y=z"}
        )

        assert answer(response) == (202, "accepted")
        (call,) = gw.orchestrator.calls
        assert response.json()["task_id"] == gw.orchestrator.tasks[call.idempotency_key]
        assert call.raw_payload == body
        assert (call.platform, call.datasource, call.event) == ("github", "mongo", "push")
        assert (call.delivery_id, call.signature_verified) == ("d-1", True)
        assert set(call.headers) == {"x-github-event", "x-github-delivery", "user-agent"}
        assert gw.orchestrator.metadata[0]["x-correlation-id"] == "abc-1"
        assert gw.orchestrator.metadata[0]["traceparent"].startswith("00-")


async def test_all_examples_of_github_are_accepted():
    examples = github_examples()
    async with world() as gw:
        for number, (event, payload) in enumerate(examples):
            body = json.dumps(payload | {"n": number}).encode()
            sent = await gw.send(body, event=event, delivery=f"d-{number}")
            assert answer(sent) == (202, "accepted"), payload

        assert len(gw.orchestrator.calls) == len(examples) == 36


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"X-GitHub-Event": "ping"}, (200, "event ignored")),
        ({"Content-Type": None}, (400, "GW_INVALID_CONTENT_TYPE")),
        ({"Content-Type": "text/plain"}, (415, "GW_INVALID_CONTENT_TYPE")),
        ({"Content-Type": "application/json; charset=utf-8"}, (202, "accepted")),
        ({"Content-Encoding": "gzip"}, (415, "GW_INVALID_CONTENT_TYPE")),
        ({"X-GitHub-Event": None}, (400, "GW_PLATFORM_MISMATCH")),
        ({"X-Hub-Signature-256": None}, (401, "GW_SIGNATURE_INVALID")),
        ({"X-GitHub-Delivery": None}, (202, "accepted")),
        ({"X-GitHub-Delivery": "x" * 201}, (400, "GW_MISSING_DELIVERY_ID")),
    ],
)
async def test_headers_decide(headers, expected):
    async with world() as gw:
        assert answer(await gw.send(headers=headers)) == expected
        assert len(gw.orchestrator.calls) == (expected[0] == 202)


async def test_a_form_is_refused_with_the_setting_of_the_platform_that_makes_it_json():
    """GitHub's own default is a form."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    async with world() as gw:
        refused = await gw.send(headers=form)

        assert answer(refused) == (415, "GW_INVALID_CONTENT_TYPE")
        assert "set 'Content type' to it in the webhook settings of github" in refused.text


async def test_a_form_of_an_unknown_sender_is_refused_without_a_guess():
    form = {"Content-Type": "application/x-www-form-urlencoded", "X-GitHub-Event": None}
    async with world() as gw:
        refused = await gw.send(headers=form)

        assert answer(refused) == (415, "GW_INVALID_CONTENT_TYPE")
        assert "settings" not in refused.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"ref": "x"',
        b'{"ref": "x"} {}',
        b'{"ref": "a", "ref": "b", "repository": {}}',
        b'{"ref": "a", "repository": {"x": 1, "\\u0078": 2}}',
        b'{"ref": "\xff", "repository": {}}',
        b'\xef\xbb\xbf{"ref": "x", "repository": {}}',
        b'{"ref": NaN, "repository": {}}',
        b'{"ref": "x", "repository": ' + b"[" * 64 + b"]" * 64 + b"}",
        b'{"ref": "x", "repository": ' + b"[" * 9000 + b"]" * 9000 + b"}",
    ],
)
async def test_what_is_not_exactly_one_object_is_no_payload(body):
    async with world() as gw:
        assert answer(await gw.send(body)) == (400, "GW_INVALID_JSON")
        assert not gw.orchestrator.calls


async def test_missing_members_are_named():
    async with world() as gw:
        push = await gw.send(b'{"repository": null}')
        request = await gw.send(b'{"action": "opened"}', event="pull_request")

        assert answer(push) == (400, "GW_PAYLOAD_VALIDATION")
        assert push.json()["message"] == "the payload must contain ref, repository"
        assert request.json()["message"] == "the payload must contain pull_request, repository"


async def test_paths_and_methods():
    async with world() as gw:
        unknown = await gw.send(segment="nowhere")
        assert answer(unknown) == (404, "GW_DATASOURCE_NOT_FOUND")
        registry = await gw.send(segment="schema-registry")
        assert answer(registry) == (404, "GW_SCHEMA_REGISTRY_NOT_CONFIGURED")
        for path in ("/", "/webhooks/", "/webhooks/a/b", "/webhooks/mongo/", "/metrics"):
            assert answer(await gw.client.post(path)) == (404, "GW_NOT_FOUND")
        got = await gw.client.get("/webhooks/mongo")
        assert answer(got) == (405, "GW_METHOD_NOT_ALLOWED")
        assert got.headers["allow"] == "POST"
        posted = await gw.client.post("/health/liveness")
        assert answer(posted) == (405, "GW_METHOD_NOT_ALLOWED")
        assert posted.headers["allow"] == "GET, HEAD"


async def test_every_answer_carries_the_same_protective_headers_and_ids():
    async with world() as gw:
        for response in (
            await gw.send(),
            await gw.client.get("/nowhere"),
            await gw.client.get("/health/liveness", headers={"X-Correlation-ID": "b" * 300}),
            await gw.client.get("/health/liveness", headers={"X-Correlation-ID": "a b"}),
        ):
            headers = response.headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["cache-control"] == "no-store, no-cache, must-revalidate"
            assert (headers["expires"], headers["pragma"]) == ("0", "no-cache")
            assert headers["x-request-id"]
            assert 0 < len(headers["x-correlation-id"]) <= 128
            assert " " not in headers["x-correlation-id"]


async def test_the_sender_s_request_id_is_taken_when_it_is_one():
    async with world() as gw:
        given = {"X-Request-ID": "rid-1", "X-Correlation-ID": "cid.1"}
        taken = await gw.client.get("/health/liveness", headers=given)
        cut = await gw.client.get("/health/liveness", headers={"X-Request-ID": "b" * 300})
        replaced = await gw.client.get("/health/liveness", headers={"X-Request-ID": "a b"})

    ids = taken.headers["x-request-id"], taken.headers["x-correlation-id"]
    assert ids == ("rid-1", "cid.1")
    assert cut.headers["x-request-id"] == "b" * 128
    assert re.fullmatch("[0-9a-f]{32}", replaced.headers["x-request-id"])


async def test_a_request_id_that_another_sender_uses_opens_no_replay():
    async with world() as gw:
        copies = [gw.send(headers={"X-Request-ID": "same"}) for _ in range(2)]
        answers = await asyncio.gather(*copies)

        assert sorted(each.status_code for each in answers) == [202, 401]
        assert len(gw.orchestrator.calls) == 1


async def test_a_body_over_the_limit_is_413_declared_or_chunked():
    """Sync invariant 31."""

    async def chunks():
        for _ in range(64):
            yield b"x" * 4096

    async with world(bundle(max_webhook_body_bytes=2000)) as gw:
        declared = await gw.send(b"x" * 300_000)
        small = await gw.send(b"x" * 2001)
        chunked = await gw.client.post(
            "/webhooks/mongo", content=chunks(), headers=signed(b"whatever")
        )

        for response in (declared, small, chunked):
            assert answer(response) == (413, "GW_BODY_TOO_LARGE")
        assert answer(await gw.send()) == (202, "accepted")
        assert gw.gateway.pipeline.memory.total == 0


@pytest.mark.parametrize(
    ("code", "expected", "retry"),
    [
        (grpc.StatusCode.NOT_FOUND, (404, "GW_DATASOURCE_NOT_FOUND"), None),
        (grpc.StatusCode.INVALID_ARGUMENT, (400, "GW_PAYLOAD_VALIDATION"), None),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, (502, "GW_ORCHESTRATOR_ERROR"), "5"),
        *(
            (code, (502, "GW_ORCHESTRATOR_ERROR"), None)
            for code in grpc.StatusCode
            if code.name not in {"OK", "NOT_FOUND", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
        ),
    ],
)
async def test_each_status_of_the_orchestrator_has_its_answer_and_releases_the_delivery(
    code, expected, retry
):
    """Sync invariant 3."""
    async with world(orchestrator=Orchestrator(failing=code)) as gw:
        failed = await gw.send()
        assert answer(failed) == expected
        assert failed.headers.get("retry-after") == retry
        gw.orchestrator.failing = None

        assert answer(await gw.send()) == (202, "accepted")


async def test_a_platform_key_that_cannot_be_fetched_is_503():
    """Sync invariant 34."""
    away = platform(secret=None)
    object.__setattr__(away, "secret", SecretRef(path="a", key="b", manager="vault"))
    async with world(bundle(away)) as gw:
        response = await gw.send()

        assert answer(response) == (503, "GW_SECRET_UNAVAILABLE")
        assert int(response.headers["retry-after"]) >= 1
        assert "vault" in (await gw.admin.get("/health/readiness")).json()["detail"]


async def test_what_goes_wrong_inside_is_500_without_detail(monkeypatch):
    async with world() as gw:
        monkeypatch.setattr(gw.gateway.webhook_secrets, "of", None)
        response = await gw.send()

        assert answer(response) == (500, "GW_INTERNAL")
        assert response.json()["message"] == "the gateway failed"


async def test_production_needs_a_delivery_id_except_from_gitlab():
    async with world(app_env="production") as gw:
        missing = await gw.send(headers={"X-GitHub-Delivery": None})
        assert answer(missing) == (400, "GW_MISSING_DELIVERY_ID")
        assert "X-GitHub-Delivery" in missing.json()["message"]


@pytest.mark.parametrize(
    ("scope", "fields"),
    [
        ("global", {"rate_global": Rate(rate=0.1, burst=1)}),
        ("ip", {"rate_per_ip": Rate(rate=0.1, burst=1)}),
        ("key", {"rate_per_key": Rate(rate=0.1, burst=1)}),
    ],
)
async def test_each_bucket_refuses_with_its_scope(scope, fields):
    """Sync invariant 34."""
    async with world(bundle(gateway=limits(**fields))) as gw:
        admitted = await gw.send(delivery="1")
        refused = await gw.send(delivery="2")

        assert admitted.headers["x-ratelimit-scope"] == "ip"
        assert admitted.headers["x-ratelimit-key"] == "127.0.0.1:mongo"
        assert answer(refused) == (429, "GW_RATE_LIMITED")
        assert refused.headers["x-ratelimit-scope"] == scope
        assert int(refused.headers["retry-after"]) >= 1
        assert (await gw.client.get("/health/liveness")).text == "OK"
        assert f'gw_rate_limit_hits_total{{scope="{scope}"}} 1.0' in await gw.metrics()


async def test_only_a_trusted_proxy_may_name_the_sender():
    async with world(bundle(gateway=limits(trusted_proxies=("127.0.0.0/8",)))) as gw:
        named = await gw.send(headers={"X-Forwarded-For": "9.9.9.9, 8.8.8.8, 127.0.0.2"})
        assert named.headers["x-ratelimit-key"] == "8.8.8.8:mongo"
    async with world() as gw:
        alone = await gw.send(headers={"X-Forwarded-For": "9.9.9.9"})
        assert alone.headers["x-ratelimit-key"] == "127.0.0.1:mongo"


async def test_the_schema_registry_takes_pushes_of_its_branch_only():
    registry = SchemaRegistry(platform="github", repo="acme/schemas", branch="main")
    async with world(bundle(schema_registry=registry)) as gw:

        async def push(body: bytes, **kwargs):
            return answer(await gw.send(body, segment="schema-registry", **kwargs))

        refused = (400, "GW_PAYLOAD_VALIDATION")
        assert await push(github_push(repo="acme/other")) == refused
        assert await push(github_push(repo="acme/schemas", ref="refs/heads/x")) == refused
        assert await push(b"{}", event="pull_request") == (200, "event ignored")
        assert await push(github_push(repo="acme/schemas")) == (202, "accepted")
        assert gw.orchestrator.calls[0].datasource == "schema-registry"


async def test_bytes_that_are_no_request_are_answered_in_json():
    """Sync invariant 34."""
    head = b"POST /webhooks/mongo HTTP/1.1\r\nHost: x\r\n"
    chunked = head + b"Content-Type: application/json\r\nX-GitHub-Event: push\r\n"
    async with world() as gw:
        for parts in (
            (b"\x00\x01\x02\r\n\r\n",),
            (b"GET / HTTP/9.9\r\n\r\n",),
            (head + b"X-Long: " + b"a" * 80_000 + b"\r\n\r\n",),
            (head, b"X-Long: " + b"a" * 80_000),
            (head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",),
            (chunked + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\nnonsense\r\n"),
        ):
            came = await raw(gw.port, *parts, pause_s=0.05)
            status, _, rest = came.partition(b"\r\n")
            assert status == b"HTTP/1.1 400 Bad Request", parts
            body = json.loads(rest.partition(b"\r\n\r\n")[2])
            assert (body["code"], body["status"]) == ("GW_BODY_READ_FAILED", 400)
        assert not gw.orchestrator.calls


async def test_readiness_follows_the_orchestrator():
    """Sync invariant 34: a probe is told when to come again, on both listeners."""
    async with world() as gw:
        await asyncio.sleep(0.3)
        ready = await gw.client.get("/health/readiness")
        assert (ready.status_code, ready.json()) == (200, {"status": "READY"})
        gw.gateway.health.terminating = True
        stopping = await gw.client.get("/health/readiness")
        assert (stopping.status_code, stopping.json()) == (503, {"status": "NOT_READY"})
        detail = await gw.admin.get("/health/readiness")
        assert detail.json() == {"status": "NOT_READY", "detail": "stopping"}
        assert [each.headers.get("retry-after") for each in (stopping, detail)] == ["2", "2"]
        head = await gw.client.head("/health/liveness")
        assert (head.status_code, head.content) == (200, b"")


async def test_a_probe_is_told_in_the_log_only_when_readiness_changes(caplog):
    async with world() as gw:
        caplog.set_level("INFO", logger="partita.sync")
        gw.gateway.health.terminating = True
        for _ in range(3):
            assert (await gw.client.get("/health/readiness")).status_code == 503
            assert (await gw.admin.get("/health/readiness")).status_code == 503
        told = [line for line in caplog.records if "ready" in line.message]
        assert [(line.levelname, line.message) for line in told] == [
            ("WARNING", "not ready: stopping")
        ]
        assert not [line for line in caplog.records if line.levelname == "ERROR"]


async def test_labels_of_metrics_come_from_the_bundle_only():
    """Sync invariant 32."""
    async with world() as gw:
        for number in range(30):
            await gw.send(segment=f"x{number}", delivery=f"{number}")
        await gw.send()
        text = await gw.metrics()

        assert 'datasource="mongo",event_type="push",outcome="accepted",platform="github"' in text
        assert 'datasource="other"' in text
        assert "x17" not in text


async def test_a_method_or_path_that_no_route_has_adds_no_label():
    """Sync invariant 32."""
    async with world() as gw:
        for number, method in enumerate(("PROPFIND", "REPORT", "MKCOL")):
            assert (await gw.client.request(method, "/webhooks/mongo")).status_code == 405
            assert (await gw.client.request(method, f"/stray{number}")).status_code == 404
        text = await gw.metrics()

        assert 'gw_http_requests_total{method="other",route="other",status_code="404"} 3.0' in text
        assert not [name for name in ("PROPFIND", "REPORT", "MKCOL", "stray") if name in text]
