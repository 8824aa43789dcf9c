"""Copies of a delivery, senders that hang up, and the breaker (reference: sync-stack 2.5, 2.6)."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from dataclasses import replace

import grpc
import pytest
import redis.asyncio

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.replay import Delivery
from sync_stack.gateway import forwarder
from sync_stack.gateway.breaker import BREAKER_LABELS, Breaker, BreakerLimits, BreakerState, Permit
from sync_stack.gateway.forwarder import Outbound
from sync_stack.sinks.redis import RedisOptions
from tests.support.parts import need
from tests.support.webhooks import github_push, signed
from tests.sync.gateway.world import Orchestrator, answer, bundle, limits, raw, world


def redis_bundle(address: str, **fields):
    made = bundle(**fields)
    store = Datasource(name="redis", kind="redis", options=RedisOptions(hosts=(address,)))
    return replace(made, datasources=(*made.datasources, store), gateway_nonce_datasource="redis")


def unique() -> bytes:
    return github_push(n=uuid.uuid4().hex)


@contextlib.asynccontextmanager
async def either(kind: str, **fields):
    """Records in memory, or shared in Redis."""
    if kind == "memory":
        async with world(bundle(**fields)) as gw:
            yield gw
        return
    address = need("TEST_REDIS_ADDR", "Redis")
    async with world(redis_bundle(address, **fields)) as gw:
        yield gw


stores = pytest.mark.parametrize("kind", ["memory", pytest.param("redis", marks=pytest.mark.redis)])


@stores
async def test_ten_copies_at_once_give_one_task(kind):
    """Sync invariant 4."""
    async with either(kind) as gw:
        gw.orchestrator.gate = asyncio.Event()
        body, delivery = unique(), uuid.uuid4().hex
        copies = [asyncio.create_task(gw.send(body, delivery=delivery)) for _ in range(10)]
        await asyncio.sleep(0.3)
        gw.orchestrator.gate.set()
        answers = sorted([answer(await copy) for copy in copies])

        assert answers == [(202, "accepted")] + [(401, "GW_REPLAY_DETECTED")] * 9
        assert len(gw.orchestrator.calls) == 1


@stores
async def test_the_same_body_under_another_id_is_a_replay_and_another_segment_is_not(kind):
    """Sync invariants 5 and 6."""
    both = bundle()
    other = replace(both.rules[0], name="second", segment="other")
    async with either(kind, rules=(*both.rules, other)) as gw:
        body = unique()
        assert answer(await gw.send(body, delivery=uuid.uuid4().hex)) == (202, "accepted")
        again = await gw.send(body, delivery=uuid.uuid4().hex)
        assert answer(again) == (401, "GW_REPLAY_DETECTED")
        elsewhere = await gw.send(body, segment="other", delivery=uuid.uuid4().hex)
        assert answer(elsewhere) == (202, "accepted")


@stores
async def test_waiting_copies_take_over_when_the_first_fails(kind):
    """Sync invariant 3."""
    async with either(kind) as gw:
        orchestrator = gw.orchestrator
        orchestrator.gate = asyncio.Event()
        orchestrator.failing = grpc.StatusCode.UNAVAILABLE
        body, delivery = unique(), uuid.uuid4().hex
        first = asyncio.create_task(gw.send(body, delivery=delivery))
        await asyncio.sleep(0.2)
        second = asyncio.create_task(gw.send(body, delivery=delivery))
        await asyncio.sleep(0.2)
        orchestrator.gate.set()
        assert answer(await first) == (502, "GW_ORCHESTRATOR_ERROR")
        orchestrator.failing = None
        assert (await second).status_code in {202, 502}
        assert (await gw.send(body, delivery=delivery)).status_code in {202, 401}
        assert any(call.delivery_id == delivery for call in orchestrator.calls)


async def test_a_sender_that_hangs_up_may_send_again():
    """Sync invariant 3."""
    async with world() as gw:
        gw.orchestrator.gate = asyncio.Event()
        body = unique()
        headers = {**signed(body), "Host": "x", "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        _reader, writer = await asyncio.open_connection("127.0.0.1", gw.port)
        writer.write(f"POST /webhooks/mongo HTTP/1.1\r\n{head}\r\n".encode() + body)
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.transport.abort()
        await asyncio.sleep(0.1)
        gw.orchestrator.gate.set()
        await asyncio.sleep(0.2)

        assert len(gw.orchestrator.calls) == 1  # the call went on without its sender
        again = await gw.send(body)
        assert answer(again) == (202, "accepted")
        assert len(gw.orchestrator.tasks) == 1


async def test_a_copy_of_a_delivery_that_hangs_is_503_in_the_end():
    """Sync invariant 34."""
    async with world(bundle(gateway=limits(forward_timeout_s=0.3))) as gw:
        body = unique()
        delivery = Delivery(
            platform="github", segment="mongo", event="push", delivery_id="d-1", body=body
        )
        keys = delivery.replay_keys(id_is_signed=False).redis_keys()
        gw.gateway.pipeline.reservations.memory.claim(keys, "somebody", 60)

        response = await gw.send(body)
        assert answer(response) == (503, "GW_DELIVERY_IN_PROGRESS")
        assert response.headers["retry-after"] == "5"
        assert not gw.orchestrator.calls


@pytest.mark.redis
async def test_two_gateways_share_their_records_and_redis_may_vanish():
    """Sync invariants 4 and 5."""
    address = need("TEST_REDIS_ADDR", "Redis")
    orchestrator = Orchestrator()
    given = redis_bundle(address)
    async with (
        world(given, orchestrator=orchestrator) as one,
        world(given, orchestrator=orchestrator) as two,
    ):
        body, delivery = unique(), uuid.uuid4().hex
        assert answer(await one.send(body, delivery=delivery)) == (202, "accepted")
        assert answer(await two.send(body, delivery=delivery)) == (401, "GW_REPLAY_DETECTED")
        host, _, port = address.partition(":")
        client = redis.asyncio.Redis(host=host, port=int(port))
        keys = [key async for key in client.scan_iter("partita:gw:replay:{github:mongo}:*")]
        await client.aclose()
        assert keys
    async with world(redis_bundle("127.0.0.1:1")) as gw:
        assert answer(await gw.send(body, delivery=delivery)) == (202, "accepted")
        assert answer(await gw.send(body, delivery=delivery)) == (401, "GW_REPLAY_DETECTED")
        assert "gw_replay_store_errors_total 0.0" not in await gw.metrics()


async def test_a_delivery_waits_for_an_orchestrator_that_restarts():
    """Sync invariant 1: a host that delivers once is not refused for two seconds of absence."""
    async with world(bundle()) as gw:
        gw.orchestrator.failing = grpc.StatusCode.UNAVAILABLE
        sending = asyncio.create_task(gw.send())
        await until(lambda: len(gw.orchestrator.calls) >= 2, 30)
        gw.orchestrator.failing = None

        assert answer(await sending) == (202, "accepted")
        assert len({call.idempotency_key for call in gw.orchestrator.calls}) == 1


async def test_the_breaker_opens_probes_and_closes(monkeypatch):
    """Sync invariants 33 and 34."""
    monkeypatch.setattr(forwarder, "_REPEAT_PAUSES_S", ())
    fields = {"breaker_failures": 2, "breaker_open_s": 0.3, "breaker_successes": 2}
    async with world(bundle(gateway=limits(**fields))) as gw:
        breaker = gw.gateway.breaker
        gw.orchestrator.failing = grpc.StatusCode.UNAVAILABLE
        gw.orchestrator.ready = False
        for _ in range(2):
            assert (await gw.send()).status_code == 502
        refused = await gw.send()
        assert answer(refused) == (503, "GW_ORCHESTRATOR_UNAVAILABLE")
        assert int(refused.headers["retry-after"]) >= 1
        assert len(gw.orchestrator.calls) == 2

        await asyncio.sleep(0.35)
        assert (await gw.send()).status_code == 502  # the probe fails: open again
        assert BREAKER_LABELS[breaker.state] == "open"
        await asyncio.sleep(0.35)
        gw.orchestrator.failing = None
        assert [(await gw.send(unique(), delivery=str(n))).status_code for n in range(2)] == [
            202,
            202,
        ]
        assert BREAKER_LABELS[breaker.state] == "closed"
        text = await gw.metrics()
        assert 'gw_circuit_breaker_state_changes_total{from_state="closed",to_state="open"}' in text


async def until(condition: Callable[[], bool], within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - the breaker tells nobody
            await asyncio.sleep(0.02)


async def test_the_breaker_of_an_orchestrator_that_is_back_ends_with_its_ping():
    """Sync invariants 33 and 34: readiness says what the breaker does, and 30 s are not waited."""
    fields = {"breaker_failures": 1, "breaker_open_s": 3600, "breaker_successes": 1}
    async with world(bundle(gateway=limits(**fields))) as gw:
        await until(lambda: gw.gateway.health.state()[0], 30)
        gw.orchestrator.failing, gw.orchestrator.ready = grpc.StatusCode.UNAVAILABLE, False
        assert (await gw.send()).status_code == 502
        refused = await gw.send()
        unready = await gw.admin.get("/health/readiness")

        gw.orchestrator.failing, gw.orchestrator.ready = None, True
        await until(lambda: gw.gateway.breaker.state is not BreakerState.OPEN, 30)
        taken = await gw.send()
        ready = await gw.admin.get("/health/readiness")

    assert answer(refused) == (503, "GW_ORCHESTRATOR_UNAVAILABLE")
    assert unready.status_code == 503
    assert "circuit breaker is open" in unready.text
    assert answer(taken) == (202, "accepted")
    assert ready.status_code == 200


def test_a_ping_lets_one_call_through_and_a_failure_opens_the_breaker_again():
    now = [0.0]
    breaker = Breaker(BreakerLimits(failures=1, open_s=30.0), lambda: now[0])
    first = breaker.admit()
    assert isinstance(first, Permit)
    breaker.half_open()  # closed: nothing to do
    assert breaker.state is BreakerState.CLOSED
    breaker.record_failure(first)

    breaker.half_open()
    probe = breaker.admit()
    assert isinstance(probe, Permit)
    assert breaker.admit() == 1
    breaker.record_failure(probe)

    assert (breaker.state, breaker.wait_s()) == (BreakerState.OPEN, 30)


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED,
    ],
)
async def test_answers_that_prove_the_orchestrator_alive_never_open_the_breaker(code):
    """Sync invariant 33."""
    async with world(orchestrator=Orchestrator(failing=code)) as gw:
        for _ in range(8):
            await gw.send()

        assert BREAKER_LABELS[gw.gateway.breaker.state] == "closed"


async def test_only_one_probe_at_a_time_and_no_permit_leaks():
    """Sync invariant 33."""
    fields = {"breaker_failures": 1, "breaker_open_s": 0.2, "forward_timeout_s": 0.4}
    async with world(bundle(gateway=limits(**fields))) as gw:
        gw.orchestrator.gate = asyncio.Event()
        assert (await gw.send()).status_code == 502  # deadline exceeded counts
        for _ in range(3):
            await asyncio.sleep(0.25)
            probes = await asyncio.gather(
                *(gw.send(unique(), delivery=uuid.uuid4().hex) for _ in range(4))
            )
            assert sorted(each.status_code for each in probes) == [502, 503, 503, 503]


def test_a_probe_that_says_nothing_gives_its_permit_back():
    """Sync invariant 33."""
    now = [0.0]
    breaker = Breaker(BreakerLimits(failures=1, open_s=30.0), lambda: now[0])
    first = breaker.admit()
    assert isinstance(first, Permit)
    breaker.record_failure(first)
    now[0] = 31.0
    for _ in range(3):
        probe = breaker.admit()
        assert isinstance(probe, Permit)
        assert breaker.admit() == 1
        breaker.release(probe)


async def test_a_probe_that_is_cut_off_gives_its_permit_back():
    """Sync invariant 33."""
    fields = {"breaker_failures": 1, "breaker_open_s": 0.2, "forward_timeout_s": 0.4}
    async with world(bundle(gateway=limits(**fields))) as gw:
        gw.orchestrator.gate = asyncio.Event()
        assert (await gw.send()).status_code == 502
        await asyncio.sleep(0.25)  # of the pause
        forwarder = gw.gateway.pipeline.forwarder
        sent = Outbound(message=b"", idempotency_key="k", correlation_id="c")
        probe = asyncio.create_task(forwarder.forward(sent, timeout_s=30))
        while not forwarder.breaker.wait_s():  # noqa: ASYNC110 - the breaker tells nobody
            await asyncio.sleep(0)
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        gw.orchestrator.gate.set()

        assert answer(await gw.send(unique(), delivery="d-2")) == (202, "accepted")


async def test_a_reload_changes_routes_without_dropping_what_runs():
    async with world() as gw:
        gw.orchestrator.gate = asyncio.Event()
        running = asyncio.create_task(gw.send())
        await asyncio.sleep(0.1)
        moved = Rule(
            name="r", platform="github", datasource="mongo", segment="new", repositories=("a/*",)
        )
        gw.gateway.apply(bundle(rules=(moved,)))
        gw.orchestrator.gate.set()

        assert answer(await running) == (202, "accepted")
        assert answer(await gw.send(unique())) == (404, "GW_DATASOURCE_NOT_FOUND")
        assert answer(await gw.send(unique(), segment="new")) == (202, "accepted")


async def test_stopping_finishes_what_runs():
    async with world() as gw:
        gw.orchestrator.gate = asyncio.Event()
        running = asyncio.create_task(gw.send())
        await asyncio.sleep(0.1)
        stopping = asyncio.create_task(gw.gateway.stop(listening_on_s=0.1))
        await asyncio.sleep(0.3)
        with pytest.raises(OSError, match="onnect"):
            await raw(gw.port, b"GET / HTTP/1.1\r\n\r\n")
        gw.orchestrator.gate.set()

        assert answer(await running) == (202, "accepted")
        await stopping
