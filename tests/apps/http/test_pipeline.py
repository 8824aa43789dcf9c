"""The request pipeline (reference: control-plane 2)."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import RequestFactory

from apps.http.api import client_ip
from apps.observability.api import metrics
from apps.operations.domain.lifecycle import is_draining
from tests.apps.http.conftest import Ask

UI = "https://ui.example"
PREFLIGHT = {"Origin": UI, "Access-Control-Request-Method": "POST"}


def test_the_middleware_stands_in_the_order_of_the_reference() -> None:
    stages = [name.rsplit(".", 1)[1] for name in django_settings.MIDDLEWARE]

    assert stages == [
        "ExceptionMiddleware",
        "CompressionMiddleware",
        "SecurityMiddleware",
        "XFrameOptionsMiddleware",
        "ContentPolicyMiddleware",
        "CorsMiddleware",
        "RequestIdMiddleware",
        "AuthSessionMiddleware",
        "UserMiddleware",
        "FlashMiddleware",
        "CsrfViewMiddleware",
        "TraceMiddleware",
        "HttpMetricsMiddleware",
        "AuditMiddleware",
        "RequestLimitsMiddleware",
        "ProblemAnswers",
    ]


@pytest.mark.parametrize("given", ["a", "A/b.c_d-9", "x" * 128])
def test_a_well_formed_request_id_is_taken_and_echoed(ask: Ask, given: str) -> None:
    answer = ask("GET", "/api/v1/things/7", headers={"X-Request-Id": given})

    assert answer.headers["x-request-id"] == given
    assert answer.text == f"{given} /api/v1/things/{{thingId}}"


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a\tb", "é", "a;b", "<script>"])
def test_any_other_request_id_is_replaced_by_a_new_uuid(ask: Ask, given: str) -> None:
    answer = ask("GET", "/nowhere", headers={"X-Request-Id": given.encode()})

    assert uuid.UUID(answer.headers["x-request-id"]).version == 4
    assert answer.json()["requestId"] == answer.headers["x-request-id"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "path", ["/healthz", "/nowhere", "/api/v1/fault", "/api/v1/plain-fault", "/api/v1/stream"]
)
def test_every_answer_carries_the_security_headers(ask: Ask, path: str) -> None:
    headers = ask("GET", path).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "script-src 'self';" in headers["content-security-policy"]
    assert "strict-transport-security" not in headers


def test_a_view_may_narrow_its_content_policy(ask: Ask) -> None:
    assert ask("GET", "/api/v1/sandboxed").headers["content-security-policy"] == "sandbox"


def test_https_sites_ask_for_https(ask: Ask, settings: Any) -> None:
    settings.SECURE_HSTS_SECONDS = 31_536_000

    assert ask("GET", "/healthz").headers["strict-transport-security"] == "max-age=31536000"

    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = settings.SECURE_HSTS_PRELOAD = True
    said = ask("GET", "/healthz").headers["strict-transport-security"]
    assert said == "max-age=31536000; includeSubDomains; preload"


@pytest.fixture
def redirecting(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_SSL_HOST = "partita.example"
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")


def test_plain_http_is_redirected_to_the_public_host(ask: Ask, redirecting: None) -> None:
    answer = ask("GET", "/api/v1/names?page=2", headers={"Host": "evil.example"})

    assert answer.status_code == 301
    assert answer.headers["location"] == "https://partita.example/api/v1/names?page=2"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_what_came_by_https_and_what_asks_for_health_are_not_redirected(
    ask: Ask, redirecting: None
) -> None:
    by_https = ask("GET", "/api/v1/names", headers={"X-Forwarded-Proto": "https"})

    assert by_https.status_code == 200
    assert ask("GET", "/healthz").status_code == 200


def test_a_preflight_of_an_allowed_origin_says_what_may_be_sent(ask: Ask, settings: Any) -> None:
    settings.FRONTEND_URLS = (f"{UI}/",)

    answer = ask("OPTIONS", "/api/v1/names", headers=PREFLIGHT)

    assert (answer.status_code, answer.text) == (204, "")
    assert answer.headers["access-control-allow-origin"] == UI
    methods = answer.headers["access-control-allow-methods"]
    assert methods == "GET, POST, PUT, PATCH, DELETE, OPTIONS"
    assert "X-CSRFToken" in answer.headers["access-control-allow-headers"]
    assert answer.headers["access-control-max-age"] == "600"
    assert "access-control-allow-credentials" not in answer.headers


def test_a_preflight_of_another_origin_is_403_with_a_fresh_id(ask: Ask) -> None:
    answer = ask("OPTIONS", "/api/v1/names", headers={**PREFLIGHT, "X-Request-Id": "mine"})

    assert (answer.status_code, answer.json()["code"]) == (403, "origin_not_allowed")
    assert "access-control-allow-origin" not in answer.headers
    assert answer.json()["requestId"] == answer.headers["x-request-id"] != "mine"
    assert answer.headers["x-frame-options"] == "DENY"


def test_a_simple_request_of_another_origin_is_served_without_cors_headers(ask: Ask) -> None:
    answer = ask("GET", "/api/v1/names", headers={"Origin": "https://evil.example"})

    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.headers["vary"] == "Origin, Accept-Encoding"


def test_a_request_of_an_allowed_origin_may_read_our_headers(ask: Ask, settings: Any) -> None:
    settings.FRONTEND_URLS = (UI,)

    headers = ask("GET", "/nowhere", headers={"Origin": UI}).headers

    assert headers["access-control-allow-origin"] == UI
    assert headers["access-control-expose-headers"] == "ETag, Location, Retry-After, X-Request-Id"


def test_head_of_a_stream_ends_at_once(ask: Ask) -> None:
    answer = ask("HEAD", "/api/v1/stream")

    assert (answer.status_code, answer.content) == (200, b"")


def test_a_stream_flows_through_the_stages(ask: Ask) -> None:
    assert ask("GET", "/api/v1/stream").text == "id: 0\n\nid: 1\n\nid: 2\n\n"


def test_requests_are_counted_by_route_pattern(ask: Ask) -> None:
    labels = {
        "http.method": "GET",
        "http.route": "/api/v1/things/{thingId}",
        "http.status_code": "200",
    }
    active = {name: labels[name] for name in ("http.method", "http.route")}
    before = metrics.value_of("http.server.requests", **labels)

    for thing in range(3):
        ask("GET", f"/api/v1/things/{thing}")

    assert metrics.value_of("http.server.requests", **labels) == before + 3
    assert metrics.value_of("http.server.duration.ms", **labels) >= 3
    assert metrics.value_of("http.server.active_requests", **active) == 0


def test_log_lines_carry_the_request_id(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    from apps.observability.logs import RequestIdFilter

    caplog.handler.addFilter(RequestIdFilter())
    with caplog.at_level(logging.ERROR, "partita.http"):
        ask("GET", "/api/v1/fault", headers={"X-Request-Id": "find-me"})

    assert {record.request_id for record in caplog.records} == {"find-me"}  # type: ignore[attr-defined]


def test_while_draining_only_health_is_answered(ask: Ask, draining: None) -> None:
    assert is_draining()

    refused = ask("GET", "/api/v1/names")

    assert (refused.status_code, refused.json()["code"]) == (503, "shutting_down")
    assert refused.headers["retry-after"] == "5"
    assert ask("GET", "/healthz").status_code == 200
    assert ask("GET", "/api/v1/system/healthz").status_code == 200


def forwarded(peer: str, header: str = "") -> str:
    return client_ip(RequestFactory().get("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=header))


def test_the_client_is_the_peer_unless_that_is_a_trusted_proxy(settings: Any) -> None:
    settings.TRUSTED_PROXIES = ("10.0.0.0/8", "fd00::1")

    assert forwarded("198.51.100.7", "1.2.3.4") == "198.51.100.7"
    assert forwarded("10.0.0.1", "1.2.3.4, 5.6.7.8, 10.9.9.9") == "5.6.7.8"
    assert forwarded("fd00::1", "2001:db8::1") == "2001:db8::1"
    assert forwarded("10.0.0.1", "5.6.7.8, made up") == "10.0.0.1"
    assert forwarded("10.0.0.1") == "10.0.0.1"
