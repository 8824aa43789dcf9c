"""Answers as bytes on a connection: pipelines, HEAD, and connections that are to be closed."""

from __future__ import annotations

import json

from tests.support.webhooks import github_push, signed
from tests.sync.gateway.world import raw, world

LIVENESS = b"%s /health/liveness HTTP/1.1\r\nHost: gateway\r\n%s\r\n"
CLOSE = b"Connection: close\r\n"


def request(body: bytes, *, delivery: str, close: bool = False) -> bytes:
    headers = {**signed(body, delivery=delivery), "Content-Length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    more = CLOSE if close else b""
    return b"POST /webhooks/mongo HTTP/1.1\r\nHost: gateway\r\n" + lines + more + b"\r\n" + body


async def test_requests_of_a_pipeline_are_answered_in_their_order():
    async with world() as gw:
        bodies = [github_push() for _ in range(2)]
        bodies[1] = json.dumps(json.loads(bodies[1]) | {"n": 2}).encode()
        sent = request(bodies[0], delivery="a") + request(bodies[1], delivery="b", close=True)
        came = await raw(gw.port, sent)

        assert came.count(b"HTTP/1.1 202 Accepted\r\n") == 2
        known = [gw.orchestrator.tasks[call.idempotency_key] for call in gw.orchestrator.calls]
        assert [call.delivery_id for call in gw.orchestrator.calls] == ["a", "b"]
        assert came.index(known[0].encode()) < came.index(known[1].encode())


async def test_an_answer_to_head_has_the_length_and_no_body():
    async with world() as gw:
        came = await raw(gw.port, LIVENESS % (b"HEAD", b"") + LIVENESS % (b"GET", CLOSE))

        head, _, rest = came.partition(b"\r\n\r\n")
        assert b"content-length: 2" in head
        assert rest.startswith(b"HTTP/1.1 200 OK\r\n")
        assert rest.endswith(b"\r\n\r\nOK")


async def test_whoever_asks_for_it_has_the_connection_closed():
    async with world() as gw:
        came = await raw(gw.port, request(github_push(), delivery="c", close=True))

        assert came.startswith(b"HTTP/1.1 202 Accepted\r\n")
        assert b"\r\nconnection: close\r\n" in came
