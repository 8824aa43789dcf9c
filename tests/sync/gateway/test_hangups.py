"""ClientAddresses that do not wait for their answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from functools import partial

from sync_stack.gateway.breaker import BREAKER_LABELS
from sync_stack.gateway.webhook_stream import MAX_UNANSWERED_BATCHES
from tests.support.webhooks import github_push, signed
from tests.sync.gateway.world import answer, bundle, limits, world

PATIENCE_S = 60


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - a fake's list tells nobody
            await asyncio.sleep(0.02)


def _called(calls: Sized, times: int) -> bool:
    return len(calls) == times


async def begun(port: int, body: bytes, delivery: str) -> asyncio.StreamWriter:
    """A request whose sender may leave."""
    headers = {**signed(body, delivery=delivery), "Host": "x", "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /webhooks/mongo HTTP/1.1\r\n{head}\r\n".encode() + body)
    await writer.drain()
    return writer


async def test_senders_that_hang_up_never_open_the_breaker():
    """Sync invariant 33: though a single failure of the orchestrator would."""
    async with world(bundle(gateway=limits(breaker_failures=1))) as gw:
        gw.orchestrator.gate = asyncio.Event()
        for number in range(1, MAX_UNANSWERED_BATCHES + 1):
            writer = await begun(gw.port, github_push(n=number), f"d-{number}")
            await until(partial(_called, gw.orchestrator.calls, number))
            writer.transport.abort()
        gw.orchestrator.gate.set()
        await until(lambda: len(gw.orchestrator.tasks) == MAX_UNANSWERED_BATCHES)

        assert BREAKER_LABELS[gw.gateway.breaker.state] == "closed"
        assert answer(await gw.send(github_push(n=9), delivery="d-9")) == (202, "accepted")


async def test_what_a_stop_cuts_off_may_be_delivered_again():
    """Its reservation goes with it: no other gateway refuses or waits for the redelivery."""
    async with world() as gw:
        gw.orchestrator.gate = asyncio.Event()
        writer = await begun(gw.port, github_push(), "d-1")
        await until(partial(_called, gw.orchestrator.calls, 1))
        records = gw.gateway.pipeline.reservations.memory
        assert len(records) > 0

        await gw.gateway.webhooks.drain(timeout_s=0.1)
        assert len(records) == 0
        gw.orchestrator.gate.set()
        writer.close()
        await writer.wait_closed()
