"""Whatever comes in, no answer is a server error (tried with generated requests)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.http.asgi import ControlPlaneHandler

pytestmark = pytest.mark.slow

HEADERS = st.sampled_from(
    [
        b"accept", b"authorization", b"content-length", b"content-type", b"cookie", b"host",
        b"if-match", b"if-none-match", b"last-event-id", b"origin", b"traceparent",
        b"x-csrftoken", b"x-forwarded-for", b"x-request-id", b"access-control-request-method",
        b"transfer-encoding", b"range",
    ]
)  # fmt: skip
VALUES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"Bearer", b"Bearer ", b"bearer eyJ.e30.x", b"application/json",
            b"application/json; charset=utf-99", b"multipart/form-data; boundary=", b"text/html",
            b'"a", W/"b"', b"*", b"-1", b"9" * 50, b"partita_session=x; csrftoken=\xff",
            b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01", b"bytes=-1",
        ]
    ),
)  # fmt: skip
PATHS = st.one_of(
    st.text(max_size=30).map(lambda text: "/" + text),
    st.sampled_from(
        [
            "/healthz", "/readyz/x", "/api/v1/echo", "/api/v1/names", "/api/v1/document",
            "/api/v1/schema", "/api/v1/docs", "/static/\x00", "/static/..", "/static//etc/passwd",
            "/api/v1/things/\x00", "/api/v1/tolerant", "/api/v1/auth/sign-in",
            "/api/v1/auth/sign-up", "/api/v1/auth/refresh", "/api/v1/suites/\x00", "/sign-in", "/",
            "/executions/\x00", "/api/v1/executions", "/api/v1/executions/run-0/events",
            "/api/v1/auth/oidc/login", "/api/v1/auth/sso/providers", "/suites/x",
            "/mocks/rest/a", "/api/v1/sandboxes",
        ]
    ),
)  # fmt: skip
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
QUERIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [b"limit=9&cursor=x", b"cursor=a.b", b"limit=%00", b"limit=\xd9\xa3", b"=&&=;"]
    ),
)
KEYS = ["fileName", "count", "flag", "tags", "nested", "lines", "email", "password"]
BODIES = st.one_of(
    st.binary(max_size=60),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
            st.sampled_from(KEYS),
            inner, max_size=4,
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)  # fmt: skip


@pytest.fixture(autouse=True)
def small_views(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.apps.http.urlconf"


def status_of(scope: dict[str, Any], body: bytes) -> int:
    sent: list[dict[str, Any]] = []
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(ControlPlaneHandler()(scope, receive, send))
    return int(sent[0]["status"])


@settings(
    max_examples=5 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    method=METHODS,
    path=PATHS,
    query=QUERIES,
    headers=st.lists(st.tuples(HEADERS, VALUES), max_size=6),
    body=BODIES,
)
@pytest.mark.django_db(transaction=True)
def test_no_request_is_answered_with_a_server_error(
    method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    scope = {
        "type": "http",
        "method": method,
        "path": path.encode(errors="replace").decode(),
        "query_string": query,
        "headers": headers,
        "client": ("203.0.113.9", 1),
        "server": ("partita.test", 80),
    }

    status = status_of(scope, body)

    assert status < 500 or status == 501  # 501: a capability that is still to come
