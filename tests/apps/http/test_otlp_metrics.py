"""The metrics over OTLP, beside Prometheus (reference: control-plane 2)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from prometheus_client import Counter, Gauge, Histogram, generate_latest

from apps.observability import metrics
from apps.observability.services import exported_telemetry, start_telemetry, stop_telemetry
from kernel import telemetry
from tests.support.otlp import Collector, attributes, collecting

pytestmark = pytest.mark.slow

STEP = {"kind": "task", "status": "healthy", "reason": ""}


@pytest.fixture(params=["grpc", "http/protobuf"])
def collector(request, settings) -> Iterator[Collector]:
    with collecting(request.param) as received:
        settings.OTEL_ENDPOINT = received.endpoint
        settings.OTEL_PROTOCOL = request.param
        yield received


@pytest.fixture(autouse=True)
def off_again() -> Iterator[None]:
    yield
    stop_telemetry()
    telemetry._state.last_export_ok = True


def test_counters_gauges_and_histograms_reach_the_collector(collector: Collector) -> None:
    before = metrics.value_of("partita.log.lines", stream="logs")
    with exported_telemetry():
        metrics.count("partita.log.lines", 50, stream="logs")
        metrics.set_gauge("partita.executions.active", 3, backend_kind="local")
        metrics.observe("partita.step.duration.ms", 30, **STEP)
        metrics.observe("partita.step.duration.ms", 700_000, **STEP)

    lines = collector.metric("partita.log.lines").sum
    assert lines.is_monotonic
    [point] = [point for point in lines.data_points if attributes(point) == {"stream": "logs"}]
    assert point.as_double == before + 50
    [active] = [
        point
        for point in collector.metric("partita.executions.active").gauge.data_points
        if attributes(point) == {"backend_kind": "local"}
    ]
    assert active.as_double == 3
    [took] = collector.metric("partita.step.duration.ms").histogram.data_points
    assert attributes(took) == STEP
    assert (took.count, took.sum) == (2, 700_030)
    assert tuple(took.explicit_bounds) == metrics.DURATIONS_MS
    assert took.bucket_counts[metrics.DURATIONS_MS.index(50)] == 1
    assert took.bucket_counts[-1] == 1


def test_requests_under_way_are_a_sum_that_goes_up_and_down(collector: Collector) -> None:
    labels = {"http.method": "GET", "http.route": "/api/v1/otlp"}
    with exported_telemetry():
        metrics.change("http.server.active_requests", +1, **labels)
        metrics.change("http.server.active_requests", -1, **labels)

    active = collector.metric("http.server.active_requests").sum
    assert not active.is_monotonic
    assert labels in [attributes(point) for point in active.data_points]


def test_every_metric_has_its_name_on_both_sides(collector: Collector) -> None:
    with exported_telemetry():
        for name, (kind, names, _text) in metrics.METRICS.items():
            labels = dict.fromkeys(names, "x")
            if name.startswith("partita.mock."):  # tallied
                metrics.mock_calls.recorder(*labels.values())(1)
                continue
            call = {Counter: metrics.count, Gauge: metrics.change, Histogram: metrics.observe}[kind]
            call(name, 1, **labels)

    assert {metric.name for metric in collector.metrics} == set(metrics.METRICS)
    text = generate_latest(metrics.registry).decode()
    assert all(name.replace(".", "_") in text for name in metrics.METRICS)


def test_two_processes_are_told_apart_by_their_resource(collector: Collector) -> None:
    with exported_telemetry():
        metrics.count("partita.log.lines", stream="logs")

    assert all(resource["service.instance.id"] for resource in collector.resources)


def test_the_inner_of_two_leaves_the_outer_exporting(collector: Collector) -> None:
    with exported_telemetry():
        with exported_telemetry():
            pass
        assert telemetry.is_configured()
    assert not telemetry.is_configured()


def test_a_gauge_that_nobody_set_stands_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_moved", set())

    assert list(metrics.standing("partita.agents.online")) == []


@pytest.mark.timed
def test_an_unreachable_collector_fails_nothing(settings) -> None:
    settings.OTEL_ENDPOINT = "127.0.0.1:1"

    assert start_telemetry()
    metrics.count("partita.log.lines", stream="logs")
    metrics.observe("partita.step.duration.ms", 30, **STEP)
    began = time.monotonic()
    stop_telemetry()

    assert time.monotonic() - began < 9  # a lifespan part has 10 s


def test_without_an_endpoint_nothing_starts(settings) -> None:
    settings.OTEL_ENDPOINT = ""

    assert not start_telemetry()
    assert telemetry.meter() is None
