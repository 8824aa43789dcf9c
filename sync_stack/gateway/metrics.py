"""The gateway's metrics, in a registry of their own; labels come from closed lists only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from itertools import accumulate, product
from typing import Final

import grpc
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from sync_stack.configuration.metrics import shared_text
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import RESERVED_SEGMENT
from sync_stack.core.git_platform import EventClass
from sync_stack.gateway.breaker import BREAKER_LABELS, BreakerState
from sync_stack.gateway.responses import Code, outcome_label

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "other"
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SCOPES: Final = ("global", "ip", "key")
RPC_METHODS: Final = ("ProcessWebhook", "ProcessWebhooks", "Ping")
BREAKER_TRANSITIONS: Final = (
    (BreakerState.CLOSED, BreakerState.OPEN),
    (BreakerState.OPEN, BreakerState.HALF_OPEN),
    (BreakerState.HALF_OPEN, BreakerState.OPEN),
    (BreakerState.HALF_OPEN, BreakerState.CLOSED),
)
# The codes of deliveries whose sender is verified, and of those refused before.
_VERIFIED_CODES: Final = (
    Code.REPLAY_DETECTED,
    Code.PAYLOAD_VALIDATION,
    Code.DATASOURCE_NOT_FOUND,
    Code.DELIVERY_IN_PROGRESS,
    Code.ORCHESTRATOR_ERROR,
    Code.ORCHESTRATOR_UNAVAILABLE,
)
_UNVERIFIED_CODES: Final = (Code.PLATFORM_MISMATCH, Code.SIGNATURE_INVALID, Code.SECRET_UNAVAILABLE)
OUTCOMES: Final = ("accepted", "ignored", *map(outcome_label, _VERIFIED_CODES))
REFUSALS: Final = tuple(map(outcome_label, _UNVERIFIED_CODES))
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
_BOUNDS: Final = (*map(floatToGoString, _SECONDS), "+Inf")


class LabeledCounter:
    """A counter without locks for one thread, converted to Prometheus's form when collected.

    Each webhook is counted three times, and the client's own counter takes a lock each time.
    """

    def __init__(self, name: str, help_text: str, *labels: str) -> None:
        self._name, self._help, self.label_names = name, help_text, labels
        self._series: dict[tuple[str, ...], int] = {}

    def begin(self, *labels: str) -> None:
        """Export a zero for these labels until they are counted."""
        self._series.setdefault(labels, 0)

    def inc(self, *labels: str) -> None:
        self._series[labels] = self._series.get(labels, 0) + 1

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._help, labels=self.label_names)
        for labels, number in self._series.items():
            family.add_metric(labels, number)
        yield family

    def describe(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._help, labels=self.label_names)


class _DurationBuckets:
    """The counts of the buckets of one series, not cumulated, and the sum of seconds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_SECONDS) + 1)
        self.seconds = 0.0


class DurationHistogram:
    """A histogram without locks, as `LabeledCounter`: each webhook is observed twice."""

    def __init__(self, name: str, help_text: str, *labels: str) -> None:
        self._name, self._help, self.label_names = name, help_text, labels
        self._series: dict[tuple[str, ...], _DurationBuckets] = {}

    def observe(self, seconds: float, *labels: str) -> None:
        timing = self._series.get(labels)
        if timing is None:
            timing = self._series[labels] = _DurationBuckets()
        timing.counts[bisect_left(_SECONDS, seconds)] += 1
        timing.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=self.label_names)
        for labels, timing in self._series.items():
            counts = accumulate(timing.counts)
            buckets = [(bound, float(next(counts))) for bound in _BOUNDS]
            family.add_metric(labels, buckets, timing.seconds)
        yield family

    def describe(self) -> Iterator[Metric]:
        yield HistogramMetricFamily(self._name, self._help, labels=self.label_names)


class GatewayMetrics:
    def __init__(self, *, version: str, commit: str) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter(
            "gw_http_requests", "Requests answered.", "method", "route", "status_code"
        )
        self.durations = self._timings(
            "gw_http_request_duration_seconds",
            "From the request's head to the end of its answer.",
            "method",
            "route",
        )
        self.webhooks = self._counter(
            "gw_webhooks", "Deliveries.", "datasource", "platform", "event_type", "outcome"
        )
        self.calls = self._counter(
            "gw_orchestrator_requests", "Calls of the orchestrator.", "rpc_method", "status"
        )
        self.call_durations = self._timings(
            "gw_orchestrator_request_duration_seconds", "Calls of the orchestrator.", "rpc_method"
        )
        self.breaker_state = Gauge(
            "gw_circuit_breaker_state", "0 closed, 1 open, 2 half-open.", registry=self.registry
        )
        self.breaker_changes = self._counter(
            "gw_circuit_breaker_state_changes", "Of the breaker.", "from_state", "to_state"
        )
        self.rate_limit_hits = self._counter("gw_rate_limit_hits", "Requests refused.", "scope")
        self.replay_store_errors = Counter(
            "gw_replay_store_errors",
            "Failures of the shared replay records.",
            registry=self.registry,
        )
        self.inbox = Gauge(
            "gw_inbox_deliveries", "Deliveries in the inbox.", ("state",), registry=self.registry
        )
        self.secrets = Counter(  # counted on the threads that fetch
            "gw_secret_resolutions",
            "Fetches from secret managers.",
            ("manager", "outcome"),
            registry=self.registry,
        )
        build = Gauge("gw_build_info", "Always 1.", ("version", "commit"), registry=self.registry)
        build.labels(version, commit).set(1)
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Export zeros for closed labels: a rate needs a value before the first event."""
        for scope in SCOPES:
            self.rate_limit_hits.begin(scope)
        for before, after in BREAKER_TRANSITIONS:
            self.breaker_changes.begin(BREAKER_LABELS[before], BREAKER_LABELS[after])
        for method, code in product(RPC_METHODS, grpc.StatusCode):
            self.calls.begin(method, code.name)

    def expect(self, bundle: Bundle) -> None:
        """Export zeros for the deliveries that the bundle admits. Call on the gateway's loop."""
        routes = {(rule.segment, rule.platform): tuple(EventClass) for rule in bundle.rules}
        if bundle.schema_registry:
            routes[RESERVED_SEGMENT, bundle.schema_registry.platform] = (EventClass.PUSH,)
        for (segment, platform), events in routes.items():
            for event, outcome in product(events, OUTCOMES):
                self.webhooks.begin(segment, platform, event.value, outcome)
            self.webhooks.begin(segment, platform, OTHER, "ignored")
            for outcome in REFUSALS:
                self.webhooks.begin(segment, OTHER, OTHER, outcome)

    def record_breaker_change(self, before: BreakerState, after: BreakerState) -> None:
        self.breaker_state.set(int(after))
        self.breaker_changes.inc(BREAKER_LABELS[before], BREAKER_LABELS[after])

    def text(self) -> bytes:
        """Return Prometheus text 0.0.4, with the shared metrics of the process."""
        return generate_latest(self.registry) + shared_text()

    def _counter(self, name: str, help_text: str, *labels: str) -> LabeledCounter:
        made = LabeledCounter(name, help_text, *labels)
        self.registry.register(made)
        return made

    def _timings(self, name: str, help_text: str, *labels: str) -> DurationHistogram:
        made = DurationHistogram(name, help_text, *labels)
        self.registry.register(made)
        return made


def one_of(known: Collection[str], label: str) -> str:
    """Return the label, or `other` for an unknown one."""
    return label if label in known else OTHER
