"""Traces over OTLP, set up only where an endpoint is configured (the contract section 2).

The OpenTelemetry packages take half a second to import, so nothing here imports them before
`configure`. Without it `tracer()` is None and no span is made.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import Tracer


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """`insecure` None: decided by the endpoint (`http://` and loopback are)."""

    endpoint: str
    protocol: str = "grpc"
    service_name: str = "partita-control-plane"
    insecure: bool | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    resource: Mapping[str, str] = field(default_factory=dict)


class _State:
    def __init__(self) -> None:
        self.provider: TracerProvider | None = None
        self.last_export_ok = True


_state: Final = _State()
_configuring: Final = threading.Lock()


def is_configured() -> bool:
    return _state.provider is not None


def last_export_succeeded() -> bool:
    """True until an export fails, and again after one that works."""
    return _state.last_export_ok


def tracer() -> Tracer | None:
    provider = _state.provider
    return None if provider is None else provider.get_tracer("partita")


def configure(settings: TelemetrySettings) -> None:
    """Start exporting; a second call changes nothing. Failing exports never raise."""
    with _configuring:
        if _state.provider is None:
            _state.provider = _provider(settings, _exporter(settings))


def shutdown(timeout_ms: int = 3000) -> None:
    """Send what is waiting and stop."""
    provider, _state.provider = _state.provider, None
    if provider is not None:
        provider.force_flush(timeout_ms)
        provider.shutdown()


def parse_pairs(text: str) -> dict[str, str]:
    """`k=v,k2=v2`; entries without `=` are dropped."""
    pairs = (entry.partition("=") for entry in text.split(","))
    return {key.strip(): value.strip() for key, sign, value in pairs if sign and key.strip()}


def is_insecure(settings: TelemetrySettings) -> bool:
    """As set, else for `http://` and for a loopback host without `https://`."""
    if settings.insecure is not None:
        return settings.insecure
    if "://" in settings.endpoint:
        return settings.endpoint.startswith("http://")
    return _is_loopback(urlsplit(f"//{settings.endpoint}").hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _provider(settings: TelemetrySettings, exporter: SpanExporter) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({**settings.resource, "service.name": settings.service_name})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(watched(exporter)))
    return provider


def _exporter(settings: TelemetrySettings) -> SpanExporter:
    if settings.protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

        url = f"{settings.endpoint.rstrip('/')}/v1/traces"
        return Http(endpoint=url, headers=dict(settings.headers), timeout=5)
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

    return Grpc(
        endpoint=settings.endpoint,
        insecure=is_insecure(settings),
        headers=tuple(settings.headers.items()),
        timeout=5,
    )


def watched(exporter: SpanExporter) -> SpanExporter:
    """The exporter, remembering whether its last export was good."""
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
