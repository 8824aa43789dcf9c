"""Traces and metrics over OTLP, only where an endpoint is configured (reference: control-plane 2).

The OpenTelemetry packages take half a second to import, so nothing here imports them before
`configure`. Without it `tracer()` and `meter()` are None and no span is made.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from kernel.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import Span, Tracer

    from kernel.otlp import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """`insecure` None: decided by the endpoint (`http://` and loopback are)."""

    endpoint: str
    protocol: str = "grpc"
    service_name: str = "partita-control-plane"
    insecure: bool | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    resource: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSpan:
    """A span known as a whole only at its end; `parent_id`: empty for the root of a trace.

    `error` marks it as failed: a reason from a closed list, never free text.
    """

    name: str
    context: TraceContext
    parent_id: str
    started_at: datetime
    ended_at: datetime
    attributes: Mapping[str, str | int]
    error: str = ""


class _TelemetryState:
    def __init__(self) -> None:
        self.provider: TracerProvider | None = None
        self.pipeline: Pipeline | None = None
        self.last_export_ok = True


_state: Final = _TelemetryState()
_configuring: Final = threading.Lock()


def is_configured() -> bool:
    return _state.provider is not None


def last_export_succeeded() -> bool:
    """True until an export fails, and again after one that works."""
    return _state.last_export_ok


def tracer() -> Tracer | None:
    provider = _state.provider
    return None if provider is None else provider.get_tracer("partita")


def meter() -> Meter | None:
    pipeline = _state.pipeline
    return None if pipeline is None else pipeline.meters.get_meter("partita")


def configure(settings: TelemetrySettings) -> bool:
    """Start exporting; a second call changes nothing and says so. Failing exports never raise."""
    with _configuring:
        if _state.pipeline is not None:
            return False
        from kernel import otlp

        _state.pipeline = otlp.pipeline(settings)
        _state.pipeline.instrument()
        _state.provider = _state.pipeline.spans
        return True


def spans_below(span: TraceContext) -> AbstractContextManager[object]:
    """Make the calls inside spans below this one, where telemetry is on."""
    pipeline = _state.pipeline
    return nullcontext() if pipeline is None else pipeline.spans_below(span)


def shutdown(timeout_ms: int = 3000) -> None:
    """Send what is waiting and stop."""
    pipeline, _state.pipeline, _state.provider = _state.pipeline, None, None
    if pipeline is not None:
        pipeline.shutdown(timeout_ms)


def record(span: FinishedSpan) -> None:
    """Export a span that is over; nothing when telemetry is off or its trace is not sampled."""
    pipeline = _state.pipeline
    if pipeline is None or not span.context.sampled:
        return
    pipeline.record(span)


def parse_pairs(text: str) -> dict[str, str]:
    """`k=v,k2=v2`, values percent-encoded where they must; entries without `=` are dropped."""
    pairs = (entry.partition("=") for entry in text.split(","))
    return {
        key.strip(): unquote(value.strip()) for key, sign, value in pairs if sign and key.strip()
    }


def is_insecure(settings: TelemetrySettings) -> bool:
    """Return the setting, else true for `http://` and a loopback host without `https://`."""
    if settings.insecure is not None:
        return settings.insecure
    if "://" in settings.endpoint:
        return settings.endpoint.startswith("http://")
    return _is_loopback(urlsplit(f"//{settings.endpoint}").hostname or "")


def endpoint_url(settings: TelemetrySettings) -> str:
    """The endpoint with a scheme, whether or not it was given with one, and no `/` at its end."""
    endpoint = settings.endpoint.rstrip("/")
    if "://" in endpoint:
        return endpoint
    return f"{'http' if is_insecure(settings) else 'https'}://{endpoint}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def watch_exporter(exporter: SpanExporter) -> SpanExporter:
    """Return an exporter that exports by this one and notes whether its last export succeeded."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Watched(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = exporter.export(spans)
            _state.last_export_ok = result is SpanExportResult.SUCCESS
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

        def force_flush(self, timeout_millis: int = 30000) -> bool:
            return exporter.force_flush(timeout_millis)

    return Watched()


def server_span(name: str, carrier: Mapping[str, str], attributes: Mapping[str, Any]) -> Any:
    """A started span of kind SERVER below the `traceparent` in `carrier`, or None when off."""
    active = tracer()
    if active is None:
        return None
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = TraceContextTextMapPropagator().extract(dict(carrier))
    return active.start_span(
        name, context=parent, kind=SpanKind.SERVER, attributes=dict(attributes)
    )


def context_of(span: Span) -> TraceContext:
    found = span.get_span_context()
    return TraceContext(
        trace_id=f"{found.trace_id:032x}",
        span_id=f"{found.span_id:016x}",
        sampled=found.trace_flags.sampled,
    )
