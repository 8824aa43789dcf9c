"""Metrics that every process of the sync stack has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric

from kernel import background

registry: Final = CollectorRegistry()
reloads: Final = Counter(
    "sync_bundle_reloads",
    "Changed bundles that were read again.",
    labelnames=["outcome"],
    registry=registry,
)
dropped_lines: Final = Counter(
    "sync_log_lines_dropped",
    "Log lines that did not reach the search index.",
    labelnames=["reason"],
    registry=registry,
)


class BackgroundFailures:
    """The failures of each background loop of this process, also the zeros."""

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "sync_background_failures",
            "Errors of background loops, which then run again.",
            labels=["loop"],
        )
        for loop, count in sorted(background.failures().items()):
            family.add_metric([loop], count)
        yield family

    def describe(self) -> Iterator[Metric]:
        yield from ()


registry.register(BackgroundFailures())


def shared_text() -> bytes:
    return generate_latest(registry)
