"""The OpenTelemetry SDK, put together; only `kernel.telemetry` imports it, once it is configured.

The SDK takes half a second to import: a process without telemetry must not pay for it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from kernel.telemetry import (
    FinishedSpan,
    TelemetrySettings,
    endpoint_url,
    is_insecure,
    watch_exporter,
)
from kernel.trace_context import TraceContext

SCOPE: Final = "partita"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMEOUT_S: Final = 5
_decided: ContextVar[TraceContext] = ContextVar("partita_decided_span")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """`spans` of requests, `finished` ones whose ids were decided before, and `meters`."""

    spans: TracerProvider
    finished: TracerProvider
    meters: MeterProvider

    def record(self, span: FinishedSpan) -> None:
        """Export a span that is over, under the ids that it was promised."""
        deciding = _decided.set(span.context)
        try:
            made = self.finished.get_tracer(SCOPE).start_span(
                span.name,
                context=_below(span),
                attributes=dict(span.attributes),
                start_time=_nanoseconds(span.started_at),
            )
        finally:
            _decided.reset(deciding)
        if span.error:
            made.set_status(StatusCode.ERROR, span.error)
        made.end(_nanoseconds(span.ended_at))

    def shutdown(self, timeout_ms: int) -> None:
        """Send what is waiting and stop; for each of spans and metrics `timeout_ms` at most."""
        self.spans.force_flush(timeout_ms)
        self.spans.shutdown()
        self.meters.shutdown(timeout_ms)


class _DecidedIds(IdGenerator):
    def generate_trace_id(self) -> int:
        return int(_decided.get().trace_id, 16)

    def generate_span_id(self) -> int:
        return int(_decided.get().span_id, 16)


def pipeline(settings: TelemetrySettings) -> Pipeline:
    resource = Resource.create({**settings.resource, "service.name": settings.service_name})
    spans = TracerProvider(resource=resource)
    # who decided the ids decided on sampling too
    finished = TracerProvider(
        resource=resource, sampler=DEFAULT_ON, id_generator=_DecidedIds(), shutdown_on_exit=False
    )
    processor = BatchSpanProcessor(watch_exporter(_span_exporter(settings)))
    for provider in (spans, finished):
        provider.add_span_processor(processor)
    reader = PeriodicExportingMetricReader(_metric_exporter(settings))
    meters = MeterProvider(resource=resource, metric_readers=[reader])
    return Pipeline(spans=spans, finished=finished, meters=meters)


def _below(span: FinishedSpan) -> Context:
    if not span.parent_id:
        return Context()
    parent = SpanContext(
        trace_id=int(span.context.trace_id, 16),
        span_id=int(span.parent_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return set_span_in_context(NonRecordingSpan(parent), Context())


def _nanoseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1) * 1000


def _span_exporter(settings: TelemetrySettings) -> SpanExporter:
    if settings.protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

        return Http(**_over_http(settings, "v1/traces"))
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

    return Grpc(**_over_grpc(settings))


def _metric_exporter(settings: TelemetrySettings) -> MetricExporter:
    if settings.protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
            OTLPMetricExporter as Http,
        )

        return Http(**_over_http(settings, "v1/metrics"))
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as Grpc

    return Grpc(**_over_grpc(settings))


def _over_http(settings: TelemetrySettings, path: str) -> dict[str, Any]:
    return {
        "endpoint": f"{endpoint_url(settings)}/{path}",
        "headers": dict(settings.headers),
        "timeout": _TIMEOUT_S,
    }


def _over_grpc(settings: TelemetrySettings) -> dict[str, Any]:
    """Metadata whose key has a capital letter fails every export."""
    metadata = tuple((name.lower(), text) for name, text in settings.headers.items())
    return {
        "endpoint": settings.endpoint,
        "insecure": is_insecure(settings),
        "headers": metadata,
        "timeout": _TIMEOUT_S,
    }
