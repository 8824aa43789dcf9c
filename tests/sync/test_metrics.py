"""Every metric that the specification names stands on `/metrics` of its process."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from prometheus_client.metrics import MetricWrapperBase

from sync_stack.gateway.metrics import Metrics as GatewayMetrics
from sync_stack.orchestrator import counters
from sync_stack.orchestrator.serving.metrics import Metrics as OrchestratorMetrics
from sync_stack.watcher.metrics import Metrics as WatcherMetrics
from tests.support.prometheus import lint
from tests.support.sync_metrics import (
    GATEWAY,
    ORCHESTRATOR,
    SHARED,
    WATCHER,
    Named,
    labels_of,
    types_of,
)


def touch(metrics: Any) -> str:
    """A sample of everything, so that labels can be seen."""
    for each in list(metrics.registry._collector_to_names):
        if isinstance(each, MetricWrapperBase) and each._labelnames:
            each.labels(*("x" for _ in each._labelnames))
    return str(metrics.text().decode())


def check(exposition: str, named: Named) -> None:
    types, labels = types_of(exposition), labels_of(exposition)
    assert {name: types.get(name) for name in named} == {
        name: kind for name, (kind, _labels) in named.items()
    }
    wrong = {
        name: labels[name]
        for name, (_kind, wanted) in named.items()
        if name in labels and labels[name] != wanted
    }
    assert wrong == {}
    assert types.keys() >= SHARED.keys()
    missing = {name for name, (_kind, wanted) in named.items() if wanted and name not in labels}
    assert missing == set()
    if shutil.which("promtool"):
        lint(exposition)


def test_the_gateway_has_its_metrics():
    check(touch(GatewayMetrics(version="1", commit="abc")), GATEWAY)


def test_the_watcher_has_its_metrics():
    check(touch(WatcherMetrics(version="1")), WATCHER)


@pytest.mark.django_db
def test_the_orchestrator_has_its_metrics():
    counters.ended("webhook", "SUCCEEDED")
    counters.retried("git_timeout")
    counters.failed("parse_error")
    counters.superseded()
    counters.written([{"datasource": "redis", "written": 2, "pruned": 1}])
    counters.restored("ok")
    counters.fetched(0.2, ok=True)
    counters.observe(counters.TASK_SECONDS, 0.3, kind="webhook")
    counters.observe(counters.STAGE_SECONDS, 0.1, stage="git")
    counters.add("orch_worker_log_lines_dropped_total", 3, reason="queue_full")
    check(touch(OrchestratorMetrics(version="1")), ORCHESTRATOR)


@pytest.mark.django_db
def test_all_of_the_orchestrators_metrics_are_there_before_anything_happened():
    types = types_of(OrchestratorMetrics(version="1").text().decode())
    assert types.keys() >= ORCHESTRATOR.keys()


@pytest.mark.django_db
def test_a_stored_histogram_counts_what_is_below_each_bound():
    for seconds in (0.02, 0.05, 0.3, 1000.0):
        counters.observe(counters.STAGE_SECONDS, seconds, stage="apply")
    registry = OrchestratorMetrics().registry
    name = counters.STAGE_SECONDS

    def below(bound: str) -> float | None:
        return registry.get_sample_value(f"{name}_bucket", {"stage": "apply", "le": bound})

    assert [below(bound) for bound in ("0.01", "0.025", "0.05", "0.5", "300.0", "+Inf")] == [
        *(0, 1, 2, 3, 3, 4)
    ]
    assert registry.get_sample_value(f"{name}_count", {"stage": "apply"}) == 4
    assert registry.get_sample_value(f"{name}_sum", {"stage": "apply"}) == pytest.approx(1000.37)
