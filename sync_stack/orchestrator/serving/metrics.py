"""Metrics of the API process (contract 4.12); those of tasks come from the store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sync_stack.orchestrator import counters
from sync_stack.orchestrator.rows import overview


class GrpcCall:
    """One call; `status` is what it will be counted as."""

    def __init__(self) -> None:
        self.status = "OK"

    async def abort(self, context: Any, status: str, detail: str) -> None:
        self.status = status
        await context.abort(grpc.StatusCode[status], detail)


class Metrics:
    def __init__(self, *, version: str = "") -> None:
        self.registry: Final = CollectorRegistry()
        self._grpc = Counter(
            "orch_grpc_requests", "gRPC calls.", ["rpc_method", "status"], registry=self.registry
        )
        self._grpc_seconds = Histogram(
            "orch_grpc_request_duration_seconds",
            "Time of gRPC calls.",
            ["rpc_method"],
            registry=self.registry,
        )
        self.webhooks = Counter(
            "orch_webhooks",
            "Deliveries.",
            ["datasource", "platform", "outcome"],
            registry=self.registry,
        )
        self.http = Counter(
            "orch_http_requests",
            "HTTP requests.",
            ["method", "route", "status_code"],
            registry=self.registry,
        )
        self.http_seconds = Histogram(
            "orch_http_request_duration_seconds",
            "Time of HTTP requests.",
            ["method", "route"],
            registry=self.registry,
        )
        info = Gauge("orch_build_info", "This build.", ["version"], registry=self.registry)
        info.labels(version).set(1)
        self.registry.register(StoredMetrics())

    @contextmanager
    def grpc_call(self, method: str) -> Iterator[GrpcCall]:
        call, begun = GrpcCall(), time.perf_counter()
        try:
            yield call
        finally:
            self._grpc.labels(method, call.status).inc()
            self._grpc_seconds.labels(method).observe(time.perf_counter() - begun)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class StoredMetrics:
    """Counters of all workers, and what the task store looks like now."""

    def collect(self) -> Iterator[Metric]:
        families: dict[str, CounterMetricFamily] = {}
        for key, value in counters.every().items():
            name, *pairs = key.split("|")
            labels = dict(pair.split("=", 1) for pair in pairs)
            family = families.setdefault(
                name, CounterMetricFamily(name, "Of all workers.", labels=sorted(labels))
            )
            family.add_metric([labels[label] for label in sorted(labels)], value)
        yield from families.values()
        depth = GaugeMetricFamily("orch_task_queue_depth", "Tasks by state.", labels=["state"])
        for state, count in overview.waiting_by_state().items():
            depth.add_metric([state], count)
        yield depth
        yield GaugeMetricFamily(
            "orch_task_oldest_pending_seconds",
            "Age of the oldest task that waits.",
            value=overview.oldest_pending_s(),
        )
        yield GaugeMetricFamily(
            "orch_stale_targets", "Units whose Git cannot be read.", value=overview.stale_units()
        )

    def describe(self) -> Iterator[Metric]:
        yield from ()
