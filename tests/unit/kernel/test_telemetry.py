"""Spans really leave over OTLP: a collector on loopback receives them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kernel import telemetry
from kernel.telemetry import FinishedSpan, TelemetrySettings, endpoint_url, is_insecure, parse_pairs
from kernel.trace_context import TraceContext, new_span, parse_traceparent
from tests.support.otlp import Collector, attributes, collecting


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as received:
        yield received


@pytest.fixture(autouse=True)
def off_again() -> Iterator[None]:
    yield
    telemetry.shutdown()
    telemetry._state.last_export_ok = True


def test_without_configuration_there_is_no_span() -> None:
    assert not telemetry.is_configured()
    assert telemetry.server_span("/x", {}, {}) is None


def test_a_span_joins_the_callers_trace_and_is_exported(collector: Collector) -> None:
    telemetry.configure(TelemetrySettings(endpoint=collector.endpoint, resource={"zone": "eu"}))
    parent = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}

    span = telemetry.server_span("/api/v1/suites", parent, {"http.request_id": "r-1"})
    span.end()
    telemetry.shutdown()

    [exported] = collector.spans
    assert exported.name == "/api/v1/suites"
    assert exported.trace_id.hex() == "1" * 32
    assert exported.parent_span_id.hex() == "2" * 16
    assert list(attributes(exported)) == ["http.request_id"]
    assert collector.resources[0]["service.name"] == "partita-control-plane"
    assert collector.resources[0]["zone"] == "eu"


def finished(**facts: Any) -> FinishedSpan:
    began = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    ended = began + timedelta(seconds=2)
    known: dict[str, Any] = {
        "name": "execution",
        "context": TraceContext(trace_id="a" * 32, span_id="b" * 16),
        "parent_id": "",
        "started_at": began,
        "ended_at": ended,
        "attributes": {"suite": "shop", "attempt": 2},
    }
    return FinishedSpan(**known | facts)


def test_a_finished_span_keeps_the_ids_and_times_it_was_given(collector: Collector) -> None:
    telemetry.configure(TelemetrySettings(endpoint=collector.endpoint))

    telemetry.record(finished())
    telemetry.record(
        finished(
            context=TraceContext(trace_id="a" * 32, span_id="c" * 16),
            parent_id="b" * 16,
            error="timeout",
        )
    )
    telemetry.shutdown()

    root, child = collector.spans
    assert (root.trace_id.hex(), root.span_id.hex()) == ("a" * 32, "b" * 16)
    assert not root.parent_span_id
    assert root.start_time_unix_nano == 1767323045678901000
    assert root.end_time_unix_nano - root.start_time_unix_nano == 2_000_000_000
    assert attributes(root) == {"suite": "shop", "attempt": 2}
    assert root.status.code == 0
    assert (child.trace_id, child.span_id.hex()) == (root.trace_id, "c" * 16)
    assert child.parent_span_id == root.span_id
    assert (child.status.code, child.status.message) == (2, "timeout")


def test_an_unsampled_trace_is_not_exported(collector: Collector) -> None:
    telemetry.configure(TelemetrySettings(endpoint=collector.endpoint))
    context = TraceContext(trace_id="a" * 32, span_id="b" * 16, sampled=False)

    telemetry.record(finished(context=context))
    telemetry.shutdown()

    assert collector.spans == []


def test_a_finished_span_goes_nowhere_while_telemetry_is_off() -> None:
    telemetry.record(finished())

    assert not telemetry.is_configured()


def test_without_configuration_the_sdk_is_never_imported() -> None:
    program = (
        "import sys; from kernel import telemetry; telemetry.server_span('/', {}, {}); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert told.stdout.strip() == b"[]"


def test_a_traceparent_is_read_and_written_again() -> None:
    text = f"00-{'a' * 32}-{'b' * 16}-01"

    found = parse_traceparent(text)

    assert found is not None
    assert str(found) == text
    unsampled = parse_traceparent(text[:-2] + "02")
    assert unsampled is not None
    assert not unsampled.sampled


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{'0' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"00-{'A' * 32}-{'b' * 16}-01",
        f"ff-{'a' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'b' * 16}-01-more",
        f"00-{'a' * 32}-{'b' * 16}-01\n",
    ],
)
def test_what_is_no_traceparent_is_ignored(text: str) -> None:
    assert parse_traceparent(text) is None


def test_children_are_told_apart_by_their_names_alone() -> None:
    run = new_span()

    first = run.child("api", 1)

    assert first == run.child("api", 1)
    assert first.trace_id == run.trace_id
    assert len({first.span_id, run.child("api", 2).span_id, run.child("db", 1).span_id}) == 3


def test_a_span_below_another_shares_its_trace_and_sampling() -> None:
    caller = TraceContext(trace_id="a" * 32, span_id="b" * 16, sampled=False)

    run = new_span(below=caller)

    assert (run.trace_id, run.sampled) == (caller.trace_id, False)
    assert run.span_id != caller.span_id


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4317/", "http://collector:4317"),
        ("localhost:4317", "http://localhost:4317"),
        ("collector:4317", "https://collector:4317"),
    ],
)
def test_an_endpoint_without_a_scheme_gets_one(endpoint: str, url: str) -> None:
    assert endpoint_url(TelemetrySettings(endpoint=endpoint)) == url


def test_a_failing_export_is_remembered_and_raises_nothing() -> None:
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Broken(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.FAILURE

    telemetry.watch_exporter(Broken()).export([])

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
    assert parse_pairs("a=Bearer%20x%2Cy%3D=,b=50%") == {"a": "Bearer x,y==", "b": "50%"}


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_header_may_be_written_in_capitals(protocol: str) -> None:
    """gRPC refuses such a name, and with it every export."""
    with collecting(protocol) as collector:
        headers = {"Authorization": "Bearer x"}
        telemetry.configure(
            TelemetrySettings(endpoint=collector.endpoint, protocol=protocol, headers=headers)
        )
        telemetry.record(finished())
        telemetry.shutdown()

    assert [span.name for span in collector.spans] == [finished().name]
    assert all(headers["authorization"] == "Bearer x" for headers in collector.headers)
