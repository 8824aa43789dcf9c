"""Bytes on a connection: pipelines, HEAD, pieces of a body, and connections that are closed."""

from __future__ import annotations

import asyncio
import json

from sync_stack.gateway import listener, protocol
from sync_stack.gateway.protocol import broken_request
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


async def test_a_head_that_follows_an_answer_has_its_own_time(monkeypatch):
    """The connection may rest for long before it, but once it has begun it must come."""
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.3)
    async with world() as gw:
        rested = LIVENESS % (b"GET", b"")
        came = await raw(gw.port, rested, rested, b"GET /health", pause_s=0.6)

        assert came.count(b"HTTP/1.1 200 OK\r\n") == 2
        assert came.endswith(broken_request("the request head was not received within 0.3 s"))


async def test_a_connection_that_rests_for_too_long_is_closed(monkeypatch):
    monkeypatch.setattr(listener, "IDLE_S", 0.3)
    async with world() as gw:
        came = await raw(gw.port, LIVENESS % (b"GET", b""))

        assert came.endswith(b"\r\n\r\nOK")


async def test_the_time_for_heads_is_not_taken_from_an_answer(monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.2)
    async with world() as gw:
        gw.orchestrator.gate = asyncio.Event()
        sending = asyncio.create_task(
            raw(gw.port, request(github_push(), delivery="d", close=True))
        )
        await asyncio.sleep(0.5)
        gw.orchestrator.gate.set()

        assert (await sending).startswith(b"HTTP/1.1 202 Accepted\r\n")


async def test_a_body_in_pieces_arrives_as_it_was_sent():
    async with world() as gw:
        sent = request(github_push(text="x" * 200_000), delivery="e", close=True)
        pieces = (sent[:900], sent[900:70_000], sent[70_000:140_001], sent[140_001:])
        came = await raw(gw.port, *pieces, pause_s=0.05)

        assert came.startswith(b"HTTP/1.1 202 Accepted\r\n")
        assert sent.endswith(gw.orchestrator.calls[0].raw_payload)
        assert len(gw.orchestrator.calls[0].raw_payload) > 200_000
