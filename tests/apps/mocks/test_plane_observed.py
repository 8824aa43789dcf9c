"""What is told of calls of mocks: metrics and spans (reference: control-plane 2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from apps.observability import metrics
from apps.observability.tallies import TalliedCounter, TalliedHistogram, Tallies
from kernel import telemetry
from tests.support.mock_planes import Planes, planes

REST = "/mocks/rest/orders/orders"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CALL = {"adapter": "rest", "dispatcher": "example", "outcome": "example"}


@pytest.fixture(params=["by ASGI", "early"])
async def mocks(request: pytest.FixtureRequest) -> AsyncIterator[Planes]:
    async with planes(asks_early=request.param == "early") as made:
        yield made


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry._state, "provider", provider)
    yield exporter
    provider.shutdown()


@pytest.mark.parametrize("path", [f"{REST}/orders", f"{REST}/orders/1", f"{REST}/none"])
async def test_a_call_in_a_trace_has_a_span(
    mocks: Planes, spans: InMemorySpanExporter, path: str
) -> None:
    await mocks.ask("GET", path)
    assert spans.get_finished_spans() == ()
    answer = await mocks.ask("GET", f"{path}?token=hunter2", headers={"traceparent": TRACE})

    [span] = spans.get_finished_spans()
    found = dict(span.attributes or {})
    assert span.name == "/mocks/rest/{space}/{surfaceId}/{path}"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert found["http.status_code"] == answer.status_code
    assert found["http.request_id"] == answer.headers["x-request-id"]
    assert "hunter2" not in span.to_json()


async def test_a_request_of_no_route_has_a_span_without_one(
    mocks: Planes, spans: InMemorySpanExporter
) -> None:
    await mocks.ask("GET", "/mocks/nothing", headers={"traceparent": TRACE})

    [span] = spans.get_finished_spans()
    assert span.name == "unmatched"


async def test_calls_are_counted_by_what_became_of_them(mocks: Planes) -> None:
    for method, path in (
        ("GET", f"{REST}/orders"),
        ("GET", f"{REST}/orders/2"),
        ("GET", f"{REST}/picky"),
        ("GET", f"{REST}/none"),
        ("GET", "/mocks/rest/none/x/y"),
        ("GET", "/mocks/none"),
        ("POST", "/mocks/grpc/orders/pay/Capture"),
        ("GET", "/internal/mock-data/orders/orders/listOrders"),
    ):
        await mocks.ask(method, path)

    assert mocks.counted == [
        ("rest", "example", "example"),
        ("rest", "example", "no_match"),
        ("rest", "example", "rejected"),
        ("rest", "", "no_match"),
        ("rest", "", "no_match"),
        ("", "", "no_match"),
        ("grpc", "example", "example"),
        ("rest", "example", "example"),
    ]


def test_tallies_are_told_as_a_counter_and_a_histogram() -> None:
    tallies = Tallies(("adapter", "dispatcher", "outcome"), (1, 5))
    registry = CollectorRegistry()
    registry.register(TalliedCounter("calls", "Calls", tallies))
    registry.register(TalliedHistogram("took_ms", "Time", tallies))
    record = tallies.recorder("rest", "example", "example")
    for duration_ms in (0.5, 1, 2, 100):
        record(duration_ms)
    text = generate_latest(registry).decode()

    labels = 'adapter="rest",dispatcher="example",outcome="example"'
    assert f"calls_total{{{labels}}} 4.0" in text
    for upper, number in (("1.0", 2), ("5.0", 3), ("+Inf", 4)):
        told = {"adapter": "rest", "dispatcher": "example", "outcome": "example", "le": upper}
        assert registry.get_sample_value("took_ms_bucket", told) == number
    assert f"took_ms_sum{{{labels}}} 103.5" in text


def test_the_metrics_of_mocks_stand_beside_the_others() -> None:
    before = metrics.value_of("partita.mock.requests", **CALL)
    told: list[Any] = []
    record = metrics.mock_calls.recorder(*CALL.values())
    metrics.mirror("partita.mock.duration.ms", lambda value, names: told.append((value, names)))
    record(2.5)
    metrics.end_mirrors()
    record(3.5)

    assert metrics.value_of("partita.mock.requests", **CALL) == before + 2
    assert metrics.value_of("partita.mock.duration.ms", **CALL) == before + 2
    assert told == [(2.5, CALL)]
    assert (CALL, before + 2) in list(metrics.standing("partita.mock.requests"))
