"""Traces and metrics over OTLP, from each process that answers, counts or commits something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import Counter, Histogram

from apps.observability import conf, metrics
from kernel import telemetry

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

_UP_DOWN: Final = frozenset({"http.server.active_requests"})  # a sum over all processes


def start_telemetry() -> bool:
    """Export from now on, where an endpoint is set; False when there is none, or it did before."""
    settings = conf.telemetry_settings()
    if settings is None or not telemetry.configure(settings):
        return False
    if meter := telemetry.meter():
        _export_metrics(meter)
    return True


def stop_telemetry() -> None:
    """Send what is waiting, for a few seconds at most, and stop."""
    telemetry.shutdown()
    metrics.end_mirrors()


@contextmanager
def exported_telemetry() -> Iterator[None]:
    """Until its end, what this process does is exported; within another one it does nothing."""
    mine = start_telemetry()
    try:
        yield
    finally:
        if mine:
            stop_telemetry()


def _export_metrics(meter: Meter) -> None:
    """Counters and gauges are read where they stand when an export is due; nothing counts twice."""
    for name, (kind, _attributes, text) in metrics.METRICS.items():
        if kind is Histogram:
            histogram = meter.create_histogram(
                name, "ms", text, explicit_bucket_boundaries_advisory=metrics.DURATIONS_MS
            )
            metrics.mirror(name, histogram.record)
        else:
            create = _creator(meter, name)
            create(name, [partial(_observations, name)], description=text)


def _creator(meter: Meter, name: str) -> Callable[..., Any]:
    if metrics.METRICS[name][0] is Counter:
        return meter.create_observable_counter
    if name in _UP_DOWN:
        return meter.create_observable_up_down_counter
    return meter.create_observable_gauge


def _observations(name: str, _options: CallbackOptions) -> Iterable[Observation]:
    from opentelemetry.metrics import Observation

    return [Observation(value, attributes) for attributes, value in metrics.standing(name)]
