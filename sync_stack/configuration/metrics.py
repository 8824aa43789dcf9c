"""Metrics that every process of the sync stack has."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, generate_latest

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


def shared_text() -> bytes:
    return generate_latest(registry)
