"""Metrics of the API process (reference: sync-stack 4.12); those of tasks come from the store."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any, Final

import grpc
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from sync_stack.configuration.metrics import shared_text
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import RESERVED_SEGMENT
from sync_stack.core.tasks import RETRYABLE, State, TaskKind
from sync_stack.orchestrator.selectors import ledgers, tasks
from sync_stack.orchestrator.services import counters
from sync_stack.orchestrator.services.counters import (
    BUCKETS,
    FETCH_SECONDS,
    STAGE_SECONDS,
    TASK_SECONDS,
)

OTHER: Final = "other"
OUTCOMES: Final = ("ok", "error")
_COUNTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "orch_tasks_total": ("Attempts that ended, by what became of the task.", ("kind", "state")),
    "orch_task_retries_total": ("Attempts that are tried again.", ("code",)),
    "orch_task_failures_total": ("Tasks that ended FAILED or DEAD.", ("code",)),
    "orch_keys_written_total": ("Keys written.", ("datasource",)),
    "orch_keys_pruned_total": ("Keys pruned.", ("datasource",)),
    "orch_restores_total": ("Targets restored from their journals.", ("outcome",)),
    "orch_superseded_total": ("Tasks whose work another one has done.", ()),
    "orch_worker_background_failures_total": (
        "Errors of background loops of workers, which then run again.",
        ("loop",),
    ),
    "orch_worker_log_lines_dropped_total": ("Log lines of workers not shipped.", ("reason",)),
}
_ENDS: Final = (State.SUCCEEDED, State.RETRYING, State.FAILED, State.DEAD)
_CLOSED: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "orch_tasks_total": tuple(product(map(str, TaskKind), map(str, _ENDS))),
    "orch_task_retries_total": tuple((code,) for code, again in RETRYABLE.items() if again),
    "orch_task_failures_total": tuple((code,) for code in RETRYABLE),
    "orch_restores_total": (("ok",), ("error",)),
}
_HISTOGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    TASK_SECONDS: ("From a task's first claim to its end.", "kind"),
    STAGE_SECONDS: ("Time of the stages of attempts.", "stage"),
    FETCH_SECONDS: ("Time of fetches that asked the remote.", "outcome"),
}


class GrpcCall:
    """One call; `status` is the status it is counted with."""

    def __init__(self) -> None:
        self.status = "OK"

    async def abort(self, context: Any, status: str, detail: str) -> None:
        self.status = status
        await context.abort(grpc.StatusCode[status], detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownLabels:
    """The labels that a bundle allows, computed once for it."""

    bundle: Bundle | None = None
    segments: frozenset[str] = frozenset()
    platforms: frozenset[str] = frozenset()

    @classmethod
    def of(cls, bundle: Bundle) -> _KnownLabels:
        return cls(
            bundle=bundle,
            segments=frozenset({rule.segment for rule in bundle.rules} | {RESERVED_SEGMENT}),
            platforms=frozenset(each.name for each in bundle.platforms),
        )


class OrchestratorMetrics:
    def __init__(self, *, version: str = "") -> None:
        self.registry: Final = CollectorRegistry()
        self._known = _KnownLabels()
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
        self._stored = StoredMetrics()
        self.registry.register(self._stored)

    def expect(self, bundle: Bundle) -> None:
        """Start each counter of the rules at zero: a rate needs a value before the first event."""
        routes = {(rule.segment, rule.platform) for rule in bundle.rules}
        if bundle.schema_registry:
            routes.add((RESERVED_SEGMENT, bundle.schema_registry.platform))
        for (segment, platform), outcome in product(routes, OUTCOMES):
            self.webhooks.labels(segment, platform, outcome)
        self._stored.expect(rule.datasource for rule in bundle.rules)

    @contextmanager
    def grpc_call(self, method: str, *, stream: bool = False) -> Iterator[GrpcCall]:
        """Count a call; a stream only if it is refused: its deliveries are counted one by one."""
        call, begun = GrpcCall(), time.perf_counter()
        try:
            yield call
        finally:
            if not stream or call.status != "OK":
                self.record_grpc_call(method, call.status, time.perf_counter() - begun)

    def record_grpc_call(self, method: str, status: str, seconds: float) -> None:
        self._grpc.labels(method, status).inc()
        self._grpc_seconds.labels(method).observe(seconds)

    def webhook(self, bundle: Bundle, datasource: str, platform: str, outcome: str) -> None:
        if self._known.bundle is not bundle:
            self._known = _KnownLabels.of(bundle)
        where = (
            _one_of(self._known.segments, datasource),
            _one_of(self._known.platforms, platform),
        )
        self.webhooks.labels(*where, outcome).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry) + shared_text()


def _one_of(known: Collection[str], label: str) -> str:
    return label if label in known else OTHER


class StoredMetrics:
    """Counters of all workers, and the current state of the tasks."""

    def __init__(self) -> None:
        self._datasources: frozenset[str] = frozenset()

    def expect(self, datasources: Iterable[str]) -> None:
        """Add datasources, from any thread; those of earlier bundles stay."""
        self._datasources |= frozenset(datasources)

    def collect(self) -> Iterator[Metric]:
        stored: dict[str, list[_Stored]] = defaultdict(list)
        for row in counters.list_all():
            name, *pairs = row.id.split("|")
            labels = dict(pair.split("=", 1) for pair in pairs)
            stored[name].append(_Stored(labels, row.value, row.seconds))
        for name, (description, names) in _COUNTERS.items():
            yield _counter(
                name, description, names, stored[name], self._expected_labels(name, names)
            )
        for name, (description, label) in _HISTOGRAMS.items():
            yield _histogram(name, description, label, stored[name])
        depth = GaugeMetricFamily("orch_task_queue_depth", "Tasks by state.", labels=["state"])
        for state, count in tasks.count_by_state().items():
            depth.add_metric([state], count)
        yield depth
        yield GaugeMetricFamily(
            "orch_task_oldest_pending_seconds",
            "Age of the oldest task that waits.",
            value=tasks.oldest_pending_s(),
        )
        yield GaugeMetricFamily(
            "orch_stale_targets", "Targets that cannot follow Git.", value=ledgers.count_stale()
        )

    def _expected_labels(self, name: str, labels: tuple[str, ...]) -> Collection[tuple[str, ...]]:
        """Return the label values that start at zero: closed lists, and those of the bundle."""
        if labels == ("datasource",):
            return [(each,) for each in sorted(self._datasources)]
        return _CLOSED.get(name, ()) if labels else ((),)

    def describe(self) -> Iterator[Metric]:
        yield from ()


@dataclass(frozen=True, slots=True)
class _Stored:
    labels: Mapping[str, str]
    value: float
    seconds: float


def _counter(
    name: str,
    description: str,
    labels: tuple[str, ...],
    rows: list[_Stored],
    expected: Collection[tuple[str, ...]],
) -> CounterMetricFamily:
    """Return the stored values, and a zero for each expected label without one."""
    family = CounterMetricFamily(name, description, labels=labels)
    values = dict.fromkeys(expected, 0.0)
    values |= {tuple(row.labels[label] for label in labels): row.value for row in rows}
    for found, value in values.items():
        family.add_metric(list(found), value)
    return family


def _histogram(
    name: str, description: str, label: str, rows: list[_Stored]
) -> HistogramMetricFamily:
    """Return cumulative buckets, as Prometheus wants them; the stored ones are not."""
    family = HistogramMetricFamily(name, description, labels=[label])
    for value in sorted({row.labels[label] for row in rows}):
        mine = {row.labels["le"]: row for row in rows if row.labels[label] == value}
        counts = [mine[bound].value if bound in mine else 0.0 for bound in BUCKETS]
        buckets = list(zip(BUCKETS, accumulate(counts), strict=True))
        family.add_metric([value], buckets, sum(row.seconds for row in mine.values()))
    return family
