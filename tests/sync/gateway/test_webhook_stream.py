"""Deliveries over one stream: together, in order, each with its own answer and deadline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest

from kernel import background
from sync_stack.gateway import webhook_stream
from sync_stack.gateway.breaker import BREAKER_LABELS
from sync_stack.gateway.webhook_stream import (
    MAX_STREAMED_BYTES,
    MAX_UNANSWERED_BATCHES,
    CallFailed,
    StreamUnknown,
    WebhookStreams,
    _frame,
    _Stream,
)
from sync_stack.rpc.channel import OrchestratorChannel
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import (
    ProcessWebhookBatch,
    ProcessWebhookBatchResult,
    ProcessWebhookRequest,
)
from tests.support.broken import BrokenOnce
from tests.support.webhooks import github_push
from tests.sync.gateway.test_hangups import until
from tests.sync.gateway.world import Orchestrator, answer, bundle, limits, serving, world


@contextlib.asynccontextmanager
async def streams_to(orchestrator: Orchestrator, **given: Any) -> AsyncIterator[WebhookStreams]:
    async with serving(orchestrator) as port:
        channel = OrchestratorChannel(f"127.0.0.1:{port}", None)
        streams = WebhookStreams(channel, **given)
        try:
            yield streams
        finally:
            await streams.close()
            await channel.close(0)


async def deliver(streams: WebhookStreams, key: str, timeout_s: float = 20) -> str:
    message = ProcessWebhookRequest(idempotency_key=key).SerializeToString()
    return str((await streams.call(key, message, "", timeout_s)).task_id)


@dataclass
class Silent(Orchestrator):
    """Answers nothing on its first streams; then it does."""

    silent: int = 1
    opened: int = 0

    async def ProcessWebhooks(self, requests: Any, context: Any) -> None:  # noqa: N802
        self.opened += 1
        if self.opened > self.silent:
            await super().ProcessWebhooks(requests, context)
        async for _batch in requests:
            pass


@dataclass
class Stopping(Orchestrator):
    """Says after the first batch of a stream that it stops, and holds the answer back."""

    opened: int = 0
    ended: int = 0
    told: asyncio.Event = field(default_factory=asyncio.Event)

    async def ProcessWebhooks(self, requests: Any, context: Any) -> None:  # noqa: N802
        self.opened += 1
        if self.opened > 1:
            await super().ProcessWebhooks(requests, context)
            return
        first = await context.read()
        await context.write(ProcessWebhookBatchResult(draining=True))
        await self.told.wait()
        await self._answer_batch(first, context, asyncio.Lock())
        while await context.read() is not grpc.aio.EOF:
            raise AssertionError("a batch after the news of the stop")
        self.ended += 1


@dataclass
class Counting(Orchestrator):
    """Knows how many streams were opened, and how many are open."""

    opened: int = 0
    open: int = 0

    async def ProcessWebhooks(self, requests: Any, context: Any) -> None:  # noqa: N802
        self.opened += 1
        self.open += 1
        try:
            await super().ProcessWebhooks(requests, context)
        finally:
            self.open -= 1


@pytest.mark.parametrize("size", [0, 1, 127, 128, 20_000, 3_000_000])
@pytest.mark.parametrize("traceparent", ["", "00-" + "a" * 32 + "-" + "b" * 16 + "-01"])
def test_what_is_written_by_hand_is_the_batch_of_the_proto(size, traceparent):
    request = ProcessWebhookRequest(raw_payload=b"x" * size, idempotency_key="k")
    message = request.SerializeToString()
    expected = ProcessWebhookBatch()
    for _ in range(2):
        expected.webhooks.add(request=request, traceparent=traceparent)

    written = b"".join(_frame(message, traceparent) * 2)
    assert ProcessWebhookBatch.FromString(written) == expected


async def test_what_arrives_while_batches_are_under_way_goes_together_and_in_order():
    gate = asyncio.Event()
    orchestrator = Orchestrator(gate=gate)
    keys = [f"{number:03}" for number in range(400)]
    async with streams_to(orchestrator) as streams:
        sent = []
        for key in keys:
            sent.append(asyncio.create_task(deliver(streams, key)))
            if len(sent) <= MAX_UNANSWERED_BATCHES:
                await until(lambda: len(orchestrator.batches) == len(sent))
        gate.set()
        made = await asyncio.gather(*sent)

    assert [call.idempotency_key for call in orchestrator.calls] == keys
    assert [orchestrator.tasks[key] for key in keys] == made
    assert orchestrator.batches[:MAX_UNANSWERED_BATCHES] == [1] * MAX_UNANSWERED_BATCHES
    assert max(orchestrator.batches) == 256
    assert len(orchestrator.batches) < 20


async def test_copies_with_one_key_get_the_one_answer():
    async with streams_to(Orchestrator()) as streams:
        first, second = await asyncio.gather(deliver(streams, "k"), deliver(streams, "k"))

    assert first == second


async def test_a_delivery_without_answer_fails_at_its_deadline_and_the_next_has_another_stream():
    orchestrator = Silent()
    async with streams_to(orchestrator) as streams, asyncio.timeout(30):
        with pytest.raises(CallFailed) as caught:
            await deliver(streams, "a", timeout_s=0.3)
        assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED

        assert await deliver(streams, "b") == orchestrator.tasks["b"]
        await until(lambda: len(streams._open) == 1)
    assert orchestrator.opened == 2


async def test_a_stream_that_breaks_fails_what_it_did_not_answer_and_the_next_opens():
    gate = asyncio.Event()
    orchestrator = Orchestrator(gate=gate)
    async with serving(orchestrator) as port:
        channel = OrchestratorChannel(f"127.0.0.1:{port}", None)
        streams = WebhookStreams(channel)
        under_way = [asyncio.create_task(deliver(streams, str(number))) for number in range(20)]
        await until(lambda: len(orchestrator.calls) == 20)
    broken = await asyncio.gather(*under_way, return_exceptions=True)
    assert {type(each) for each in broken} == {CallFailed}
    assert {each.code.name for each in broken if isinstance(each, CallFailed)} <= {
        "UNAVAILABLE",
        "CANCELLED",
        "UNKNOWN",
    }

    again = Orchestrator()
    async with serving(again, port=port), asyncio.timeout(60):
        while not again.tasks:
            with contextlib.suppress(CallFailed):
                await deliver(streams, "0")
            await asyncio.sleep(0.1)
        await streams.close()
    await channel.close(0)


async def test_a_stop_of_the_orchestrator_costs_no_delivery():
    orchestrator = Stopping()
    async with streams_to(orchestrator) as streams, asyncio.timeout(30):
        first = asyncio.create_task(deliver(streams, "a"))
        await until(lambda: streams._current is None and len(streams._open) == 1)
        assert await deliver(streams, "b") == orchestrator.tasks["b"]
        orchestrator.told.set()

        assert await first == orchestrator.tasks["a"]
        await until(lambda: orchestrator.ended == 1)


async def test_new_certificates_open_another_stream_and_the_old_one_is_answered():
    gate = asyncio.Event()
    orchestrator = Orchestrator(gate=gate)
    async with serving(orchestrator) as port, asyncio.timeout(30):
        channel = OrchestratorChannel(f"127.0.0.1:{port}", None)
        streams = WebhookStreams(channel)
        first = asyncio.create_task(deliver(streams, "a"))
        await until(lambda: len(orchestrator.calls) == 1)
        channel._replace()
        second = asyncio.create_task(deliver(streams, "b"))
        await until(lambda: len(orchestrator.calls) == 2)
        assert len(streams._open) == 2
        gate.set()

        assert [await first, await second] == list(orchestrator.tasks.values())
        await until(lambda: len(streams._open) == 1)
        await streams.close()
        await channel.close(0)


async def test_an_unknown_method_is_not_tried_again_for_a_minute():
    now = [0.0]
    async with streams_to(Orchestrator(streams=False), clock=lambda: now[0]) as streams:
        assert streams.takes(MAX_STREAMED_BYTES)
        with pytest.raises(StreamUnknown):
            await deliver(streams, "a")
        await until(lambda: not streams.takes(1))
        now[0] = 61.0
        assert streams.takes(MAX_STREAMED_BYTES)
        assert not streams.takes(MAX_STREAMED_BYTES + 1)


async def test_an_orchestrator_without_the_stream_gets_unary_calls():
    async with world(orchestrator=Orchestrator(streams=False)) as gw:
        for number in range(3):
            sent = await gw.send(github_push(n=number), delivery=str(number))
            assert answer(sent) == (202, "accepted")

        text = await gw.metrics()
        calls = "gw_orchestrator_requests_total"
        assert f'{calls}{{rpc_method="ProcessWebhooks",status="UNIMPLEMENTED"}} 1.0' in text
        assert f'{calls}{{rpc_method="ProcessWebhook",status="OK"}} 3.0' in text
        assert BREAKER_LABELS[gw.gateway.breaker.state] == "closed"


async def test_a_large_delivery_does_not_hold_up_the_stream():
    async with world() as gw:
        body = github_push(filler="x" * MAX_STREAMED_BYTES)
        assert answer(await gw.send(body, delivery="large")) == (202, "accepted")
        assert answer(await gw.send(delivery="small")) == (202, "accepted")

        assert gw.orchestrator.batches == [1]
        assert len(gw.orchestrator.calls) == 2


async def test_a_broken_stream_counts_for_the_breaker_and_may_be_sent_again():
    """Sync invariants 3 and 33."""
    orchestrator = Silent(silent=2, ready=False)
    fields = limits(breaker_failures=2, breaker_open_s=60, forward_timeout_s=0.5)
    async with world(bundle(gateway=fields), orchestrator=orchestrator) as gw:
        for _ in range(2):
            assert answer(await gw.send()) == (502, "GW_ORCHESTRATOR_ERROR")
        assert answer(await gw.send()) == (503, "GW_ORCHESTRATOR_UNAVAILABLE")
        assert BREAKER_LABELS[gw.gateway.breaker.state] == "open"
        gw.gateway.breaker._opened_at -= 60

        assert answer(await gw.send()) == (202, "accepted")


async def test_a_cancelled_delivery_that_was_not_sent_yet_is_not_sent():
    gate = asyncio.Event()
    orchestrator = Orchestrator(gate=gate)
    async with streams_to(orchestrator) as streams:
        sent = []
        for number in range(MAX_UNANSWERED_BATCHES + 2):
            sent.append(asyncio.create_task(deliver(streams, str(number))))
            await asyncio.sleep(0.02)
        await until(lambda: len(orchestrator.calls) == MAX_UNANSWERED_BATCHES)
        sent[-1].cancel()
        gate.set()
        await asyncio.gather(*sent, return_exceptions=True)

    kept = [str(number) for number in range(MAX_UNANSWERED_BATCHES + 1)]
    assert [call.idempotency_key for call in orchestrator.calls] == kept


@pytest.mark.parametrize("broken", ["_answer", "_next_batch"])
async def test_a_reader_or_writer_that_fails_is_counted_and_another_stream_opens(
    broken: str, monkeypatch: pytest.MonkeyPatch
):
    once = BrokenOnce(getattr(_Stream, broken))
    monkeypatch.setattr(_Stream, broken, once.function())
    monkeypatch.setattr(background, "STEADY_S", 0.2)
    opened: list[_Stream] = []  # the orchestrator may not see one that is broken at once

    def open_stream(*arguments: Any) -> _Stream:
        opened.append(_Stream(*arguments))
        return opened[-1]

    monkeypatch.setattr(webhook_stream, "_Stream", open_stream)
    orchestrator = Counting()
    others = background.running().count("webhook-stream")  # of earlier tests
    async with streams_to(orchestrator) as streams, asyncio.timeout(30):
        before = background.failures()["webhook-stream"]
        with pytest.raises(CallFailed):
            await deliver(streams, "a")

        assert background.failures()["webhook-stream"] == before + 1
        assert "webhook-stream" in background.failing()
        await until(lambda: len(opened) == 2 and orchestrator.open == 1)
        await until(lambda: not streams._watch.is_failing)
        assert await deliver(streams, "a") == orchestrator.tasks["a"]
        assert (once.raised, len(opened)) == (1, 2)
    assert background.running().count("webhook-stream") == others
