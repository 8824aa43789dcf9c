"""The OpenTelemetry SDK, put together; only `kernel.telemetry` imports it, once it is configured.

A process without telemetry must not pay for its import. OpenTelemetry's own instrumentations make
the spans of SQL statements, commands of Redis and tasks of Celery (decision 0075).
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pkgutil import resolve_name
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, DEFAULT_ON, ParentBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
    use_span,
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
_INSTRUMENTATIONS: Final = {
    "celery": "opentelemetry.instrumentation.celery:CeleryInstrumentor",
    "psycopg": "opentelemetry.instrumentation.psycopg:PsycopgInstrumentor",
    "redis": "opentelemetry.instrumentation.redis:RedisInstrumentor",
}
_BEGIN_TRACES: Final = frozenset({"celery"})
_RETRY_REASON: Final = "celery.retry.reason"  # an exception's text
_MAX_TEXT: Final = 4_096  # characters of an attribute: an INSERT of many rows is longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """`spans` of requests and tasks, `calls` below them, and `meters`.

    `finished`: spans whose ids were decided before they began. `undo` ends the instrumentations.
    """

    spans: TracerProvider
    calls: TracerProvider
    finished: TracerProvider
    meters: MeterProvider
    undo: ExitStack = field(default_factory=ExitStack)

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

    def spans_below(self, span: TraceContext) -> AbstractContextManager[object]:
        """Make the calls inside spans below this one."""
        return use_span(NonRecordingSpan(_span_context(span)))

    def instrument(self) -> None:
        """Make spans of what is asked of the libraries that this process has imported so far."""
        if psycopg := sys.modules.get("psycopg"):
            for owner in (psycopg, psycopg.Connection, psycopg.AsyncConnection):
                # the instrumentation would leave subclasses the `connect` of Connection itself
                self.undo.callback(setattr, owner, "connect", vars(owner)["connect"])
        for library, name in _INSTRUMENTATIONS.items():
            if library in sys.modules:
                instrumentor = resolve_name(name)()
                spans = self.spans if library in _BEGIN_TRACES else self.calls
                instrumentor.instrument(tracer_provider=spans)
                self.undo.callback(instrumentor.uninstrument)

    def shutdown(self, timeout_ms: int) -> None:
        """Send what is waiting and stop; for each of spans and metrics `timeout_ms` at most."""
        self.undo.close()
        self.spans.force_flush(timeout_ms)
        self.spans.shutdown()
        self.meters.shutdown(timeout_ms)


class _DecidedIds(IdGenerator):
    def generate_trace_id(self) -> int:
        return int(_decided.get().trace_id, 16)

    def generate_span_id(self) -> int:
        return int(_decided.get().span_id, 16)


class SpanQueue(BatchSpanProcessor):
    """Exports spans in batches, without the texts of exceptions, which may quote any value."""

    def on_end(self, span: ReadableSpan) -> None:
        scope = span.instrumentation_scope
        super().on_end(span if scope and scope.name == SCOPE else _without_error_text(span))


def _without_error_text(span: ReadableSpan) -> ReadableSpan:
    return ReadableSpan(
        span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes={
            key: value for key, value in (span.attributes or {}).items() if key != _RETRY_REASON
        },
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def pipeline(settings: TelemetrySettings) -> Pipeline:
    resource = Resource.create({**settings.resource, "service.name": settings.service_name})
    spans = TracerProvider(resource=resource)
    # background loops ask the store and Redis all the time: no traces of their own
    calls = TracerProvider(
        resource=resource,
        sampler=ParentBased(ALWAYS_OFF),
        span_limits=SpanLimits(max_span_attribute_length=_MAX_TEXT),
        shutdown_on_exit=False,
    )
    # who decided the ids decided on sampling too
    finished = TracerProvider(
        resource=resource, sampler=DEFAULT_ON, id_generator=_DecidedIds(), shutdown_on_exit=False
    )
    processor = SpanQueue(watch_exporter(_span_exporter(settings)))
    for provider in (spans, calls, finished):
        provider.add_span_processor(processor)
    reader = PeriodicExportingMetricReader(_metric_exporter(settings))
    meters = MeterProvider(resource=resource, metric_readers=[reader])
    return Pipeline(spans=spans, calls=calls, finished=finished, meters=meters)


def _below(span: FinishedSpan) -> Context:
    if not span.parent_id:
        return Context()
    parent = replace(span.context, span_id=span.parent_id)
    return set_span_in_context(NonRecordingSpan(_span_context(parent)), Context())


def _span_context(span: TraceContext) -> SpanContext:
    return SpanContext(
        trace_id=int(span.trace_id, 16),
        span_id=int(span.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if span.sampled else TraceFlags.DEFAULT),
    )


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
