"""A span per request (reference: control-plane 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kernel import telemetry
from tests.apps.http.conftest import Ask


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry._state, "provider", provider)
    yield exporter
    provider.shutdown()


def attributes(span: Any) -> dict[str, Any]:
    return dict(span.attributes)


def test_a_span_is_named_by_the_route_and_knows_who_asked(
    ask: Ask, spans: InMemorySpanExporter, signed_in: None
) -> None:
    ask("GET", "/api/v1/signed", headers={"X-Request-Id": "r-1"})

    [span] = spans.get_finished_spans()
    found = attributes(span)
    assert span.name == "/api/v1/signed"
    assert found["http.request_id"] == "r-1"
    assert found["http.route"] == "/api/v1/signed"
    assert found["http.status_code"] == 200
    assert (found["enduser.id"], found["enduser.workspace_id"]) == ("u-1", "w-1")
    assert found["enduser.admin"] is False


def test_an_anonymous_request_names_nobody_and_no_query(
    ask: Ask, spans: InMemorySpanExporter
) -> None:
    ask("GET", "/api/v1/names?q=hunter2&token=t")

    [span] = spans.get_finished_spans()
    assert not [name for name in attributes(span) if name.startswith("enduser")]
    assert "hunter2" not in span.to_json()
    assert "token" not in span.to_json()


def test_a_request_joins_the_trace_of_its_caller(ask: Ask, spans: InMemorySpanExporter) -> None:
    ask("GET", "/healthz", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})

    [span] = spans.get_finished_spans()
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == "a" * 32


def test_a_stream_has_one_span_that_ends_with_it(ask: Ask, spans: InMemorySpanExporter) -> None:
    ask("GET", "/api/v1/stream")

    assert [span.name for span in spans.get_finished_spans()] == ["/api/v1/stream"]


def test_a_server_error_marks_its_span_without_the_exceptions_text(
    ask: Ask, spans: InMemorySpanExporter
) -> None:
    ask("GET", "/api/v1/fault")

    [span] = spans.get_finished_spans()
    assert not span.status.is_ok
    assert "hunter2" not in span.to_json()
