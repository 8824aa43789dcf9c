"""Metrics of the control plane: docs/tables/metrics.md."""

from __future__ import annotations

from collections.abc import Iterator

from apps.observability.metrics import DURATIONS_MS, METRICS
from documentation.markdown import code, codes, table


def page() -> str:
    uppers = ", ".join(f"{upper:,}" for upper in DURATIONS_MS)
    return (
        "# Metrics of the control plane\n\n"
        "Prometheus text on `METRICS_ADDR`, and over OTLP under the names with dots (`partita.agents.online`). No label "
        "holds the id of a user, run, worker or request. A histogram `x` has the series `x_bucket`, `x_sum` and "
        f"`x_count`; its buckets end at {uppers} ms.\n\n"
        "What to watch and when to be alarmed: [Monitoring](../operations.md#monitoring). The metrics of gateway, "
        "orchestrator and watcher: [Monitoring the configuration sync](../sync-monitoring.md).\n\n"
        f"{table(('Metric', 'Kind', 'Labels', 'Meaning'), rows())}"
    )


def rows() -> Iterator[tuple[str, str, str, str]]:
    for name, (kind, labels, words) in METRICS.items():
        shown = kind.__name__.lower()
        flat = name.replace(".", "_") + ("_total" if shown == "counter" else "")
        yield code(flat), shown, codes(label.replace(".", "_") for label in labels), words
