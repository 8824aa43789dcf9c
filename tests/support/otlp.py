"""A collector on loopback that keeps what it is sent, by gRPC or by HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metric_wire
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metric_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as span_wire
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as span_service

from kernel.otlp import SCOPE
from tests.support.http_threads import serve_http


class Collector:
    """`spans` and `metrics` as they came; `resources`: the attributes of each resource."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.spans: list[Any] = []
        self.own_spans: list[Any] = []  # without those of OpenTelemetry's instrumentations
        self.metrics: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []

    def take_spans(self, request: Any) -> None:
        for each in request.resource_spans:
            self.resources.append(attributes(each.resource))
            for scope in each.scope_spans:
                self.spans.extend(scope.spans)
                if scope.scope.name == SCOPE:
                    self.own_spans.extend(scope.spans)

    def take_metrics(self, request: Any) -> None:
        for each in request.resource_metrics:
            self.resources.append(attributes(each.resource))
            self.metrics.extend(metric for scope in each.scope_metrics for metric in scope.metrics)

    def metric(self, name: str) -> Any:
        """As it was sent last."""
        return next(metric for metric in reversed(self.metrics) if metric.name == name)


def attributes(holder: Any) -> dict[str, Any]:
    return {
        entry.key: getattr(entry.value, entry.value.WhichOneof("value"))
        for entry in holder.attributes
    }


@contextmanager
def collecting(protocol: str = "grpc") -> Iterator[Collector]:
    received = Collector()
    with (_by_http if protocol == "http/protobuf" else _by_grpc)(received):
        yield received


class _Traces(span_service.TraceServiceServicer):
    def __init__(self, received: Collector) -> None:
        self._received = received

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        self._received.headers.append(dict(context.invocation_metadata()))
        self._received.take_spans(request)
        return span_wire.ExportTraceServiceResponse()


class _Metrics(metric_service.MetricsServiceServicer):
    def __init__(self, received: Collector) -> None:
        self._received = received

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        self._received.take_metrics(request)
        return metric_wire.ExportMetricsServiceResponse()


@contextmanager
def _by_grpc(received: Collector) -> Iterator[None]:
    server = grpc.server(ThreadPoolExecutor(2))
    span_service.add_TraceServiceServicer_to_server(_Traces(received), server)
    metric_service.add_MetricsServiceServicer_to_server(_Metrics(received), server)
    received.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


@contextmanager
def _by_http(received: Collector) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.headers.append({key.lower(): text for key, text in self.headers.items()})
            if self.path == "/v1/traces":
                received.take_spans(span_wire.ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                received.take_metrics(metric_wire.ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            pass

    with serve_http(Handler) as server:
        received.endpoint = f"http://127.0.0.1:{server.server_port}"
        yield
