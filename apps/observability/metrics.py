"""Metrics by their names (reference: control-plane 2): Prometheus text on METRICS_ADDR, and OTLP.

    metrics.count("partita.log.lines", 50, stream="logs")
    metrics.observe("partita.step.duration.ms", 812, kind="task", status="healthy", reason="")
    metrics.change("partita.streams.open", +1, stream="events")
    metrics.set_gauge("partita.agents.online", 3)

No attribute ever carries the id of a user, run, agent or request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from django_prometheus import db as database
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from apps.observability.tallies import TalliedCounter, TalliedHistogram, Tallies

registry: Final = CollectorRegistry()
_HTTP = ("http.method", "http.route", "http.status_code")
_STEP = ("kind", "status", "reason")
_MOCK = ("adapter", "dispatcher", "outcome")
DURATIONS_MS: Final = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 60_000, 600_000)

METRICS: Final[dict[str, tuple[type[Counter | Gauge | Histogram], tuple[str, ...], str]]] = {
    "http.server.requests": (Counter, _HTTP, "Requests answered"),
    "http.server.active_requests": (Gauge, _HTTP[:2], "Requests being answered"),
    "http.server.duration.ms": (Histogram, _HTTP, "Time to the end of the answer"),
    "partita.executions.active": (Gauge, ("backend_kind",), "Runs that are not queued or over"),
    "partita.executions.queued": (Gauge, ("backend_kind",), "Runs waiting for admission"),
    "partita.executions.finished": (
        Counter,
        ("backend_kind", "status", "reason"),
        "Runs that came to an end",
    ),
    "partita.steps.finished": (Counter, _STEP, "Steps that came to an end"),
    "partita.step.duration.ms": (Histogram, _STEP, "From the claim of a step to its end"),
    "partita.step.queue_wait.ms": (Histogram, _STEP, "From queued to claimed"),
    "partita.catalog.sync.duration.ms": (
        Histogram,
        ("outcome",),
        "Synchronizations of a registry",
    ),
    "partita.streams.open": (Gauge, ("stream",), "Open streams"),
    "partita.stream.resyncs": (Counter, ("stream",), "Slow followers sent back to the store"),
    "partita.log.lines": (Counter, ("stream",), "Log lines stored"),
    "partita.agents.online": (Gauge, (), "Workers with a recent heartbeat"),
    "partita.agent.leases_expired": (Counter, (), "Leases that ran out"),
    "partita.agent.stale_reports": (Counter, (), "Reports refused by fencing"),
    "partita.mock.requests": (Counter, _MOCK, "Calls of mocks answered"),
    "partita.mock.duration.ms": (Histogram, _MOCK, "Time to the end of the answer of a mock"),
    "partita.reap.removed": (Counter, (), "Containers, networks and volumes that reaps removed"),
    "partita.audit.dropped": (Counter, (), "Audit records that could not be stored"),
    "partita.background.failures": (Counter, ("loop",), "Errors of background loops"),
}
# Both of one set of tallies: their callers cannot pay for an instrument of its own.
mock_calls: Final = Tallies(_MOCK, DURATIONS_MS)
_TALLIED: Final = {"partita.mock.requests", "partita.mock.duration.ms"}
_instruments: Final[dict[str, Any]] = {}
_moved: Final[set[str]] = set()  # gauges that this process has set or moved
_moving: Final = threading.Lock()
_recorders: Final[dict[str, Callable[[float, dict[str, str]], None]]] = {}


def count(name: str, amount: float = 1, /, **attributes: str) -> None:
    _instrument(name, attributes).inc(amount)


def observe(name: str, value: float, /, **attributes: str) -> None:
    _instrument(name, attributes).observe(value)
    if record := _recorders.get(name):
        record(value, attributes)


def change(name: str, amount: float, /, **attributes: str) -> None:
    """Move a gauge up or down."""
    _instrument(name, attributes).inc(amount)
    _show(name)


def set_gauge(name: str, value: float, /, **attributes: str) -> None:
    _instrument(name, attributes).set(value)
    _show(name)


def forget(name: str, /) -> None:
    """Another process knows better where a gauge stands: here it is not told any more."""
    with _moving:
        if name not in _moved:
            return
        _moved.discard(name)
        if METRICS[name][1]:
            _instruments[name].clear()
        else:
            registry.unregister(_instruments[name])


def _show(name: str) -> None:
    """A gauge without attributes would else be told from the start, as 0, by who never set it."""
    if name in _moved:
        return
    with _moving:
        if name not in _moved and not METRICS[name][1]:
            registry.register(_instruments[name])
        _moved.add(name)


def value_of(name: str, /, **attributes: str) -> float:
    """Return the value of a counter or gauge, or the number of observations of a histogram."""
    kind, _names, _help = METRICS[name]
    suffix = {Counter: "_total", Histogram: "_count", Gauge: ""}[kind]
    labels = {_flat(key): value for key, value in attributes.items()}
    return registry.get_sample_value(f"{_flat(name)}{suffix}", labels) or 0.0


def standing(name: str, /) -> Iterator[tuple[dict[str, str], float]]:
    """Yield the values of a counter or gauge with their attributes; none of a gauge never set."""
    kind, attributes, _help = METRICS[name]
    if kind is Gauge and name not in _moved:
        return
    names = {_flat(attribute): attribute for attribute in attributes}
    for family in _instruments[name].collect():
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                yield {names[key]: text for key, text in sample.labels.items()}, sample.value


def mirror(name: str, record: Callable[[float, dict[str, str]], None], /) -> None:
    """Tell `record` too what a histogram observes, with its attributes; until `end_mirrors`."""
    if name in _TALLIED:
        mock_calls.set_mirror(record)
    else:
        _recorders[name] = record


@cache
def serve_statements() -> None:
    """Serve what django-prometheus counts of the store's statements, for Prometheus only."""
    for metric in (
        database.connections_total,
        database.connection_errors_total,
        database.execute_total,
        database.execute_many_total,
        database.errors_total,
        database.query_duration_seconds,
    ):
        registry.register(metric)


def end_mirrors() -> None:
    _recorders.clear()
    mock_calls.set_mirror(None)


def _instrument(name: str, attributes: dict[str, str]) -> Any:
    labels = {_flat(key): value for key, value in attributes.items()}
    instrument = _instruments[name]
    return instrument.labels(**labels) if labels else instrument


def _flat(name: str) -> str:
    return name.replace(".", "_")


def _register() -> None:
    for name, (kind, attributes, text) in METRICS.items():
        if name in _TALLIED:
            made = TalliedCounter if kind is Counter else TalliedHistogram
            _instruments[name] = made(_flat(name), text, mock_calls)
            registry.register(_instruments[name])
            continue
        labels = [_flat(attribute) for attribute in attributes]
        extra: dict[str, Any] = {"buckets": DURATIONS_MS} if kind is Histogram else {}
        shown = None if kind is Gauge and not attributes else registry
        _instruments[name] = kind(_flat(name), text, labels, registry=shown, **extra)


_register()
