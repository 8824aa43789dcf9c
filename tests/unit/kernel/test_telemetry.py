"""Spans really leave over OTLP: a collector on loopback receives them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as wire
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service

from kernel import telemetry
from kernel.telemetry import TelemetrySettings, is_insecure, parse_pairs


class Collector(service.TraceServiceServicer):
    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        for resource_spans in request.resource_spans:
            attributes = resource_spans.resource.attributes
            self.resources.append({entry.key: entry.value.string_value for entry in attributes})
            for scope in resource_spans.scope_spans:
                self.spans.extend(scope.spans)
        return wire.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Iterator[tuple[Collector, int]]:
    server, received = grpc.server(ThreadPoolExecutor(2)), Collector()
    service.add_TraceServiceServicer_to_server(received, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield received, port
    server.stop(None).wait()


@pytest.fixture(autouse=True)
def off_again() -> Iterator[None]:
    yield
    telemetry.shutdown()
    telemetry._state.last_export_ok = True


def test_without_configuration_there_is_no_span() -> None:
    assert not telemetry.is_configured()
    assert telemetry.server_span("/x", {}, {}) is None


def test_a_span_joins_the_callers_trace_and_is_exported(collector: tuple[Collector, int]) -> None:
    received, port = collector
    telemetry.configure(TelemetrySettings(endpoint=f"127.0.0.1:{port}", resource={"zone": "eu"}))
    parent = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}

    span = telemetry.server_span("/api/v1/suites", parent, {"http.request_id": "r-1"})
    span.end()
    telemetry.shutdown()

    [exported] = received.spans
    assert exported.name == "/api/v1/suites"
    assert exported.trace_id.hex() == "1" * 32
    assert exported.parent_span_id.hex() == "2" * 16
    assert [entry.key for entry in exported.attributes] == ["http.request_id"]
    assert received.resources[0]["service.name"] == "partita-control-plane"
    assert received.resources[0]["zone"] == "eu"


def test_a_failing_export_is_remembered_and_raises_nothing() -> None:
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Broken(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.FAILURE

    telemetry.watched(Broken()).export([])

    assert not telemetry.last_export_succeeded()


@pytest.mark.parametrize(
    ("endpoint", "insecure"),
    [
        ("http://collector:4317", True),
        ("https://collector:4317", False),
        ("localhost:4317", True),
        ("127.0.0.1:4317", True),
        ("[::1]:4317", True),
        ("collector:4317", False),
    ],
)
def test_http_and_loopback_are_insecure_unless_set_otherwise(endpoint: str, insecure: bool) -> None:
    assert is_insecure(TelemetrySettings(endpoint=endpoint)) is insecure
    assert is_insecure(TelemetrySettings(endpoint=endpoint, insecure=not insecure)) is not insecure


def test_headers_are_pairs() -> None:
    assert parse_pairs("a=1, b = x=y ,c,=z,") == {"a": "1", "b": "x=y"}
