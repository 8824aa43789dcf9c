"""Every metric of the sync stack stands on `/metrics` of its process."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.metrics import MetricWrapperBase

from sync_stack.configuration.bundle_file import Reload
from sync_stack.configuration.conf import BundleSettings
from sync_stack.configuration.process_configuration import open_configuration
from sync_stack.core.bundle.secret_use import Process
from sync_stack.gateway.metrics import SCOPES, DurationHistogram, GatewayMetrics, LabeledCounter
from sync_stack.orchestrator.domain.task_documents import TargetOutcome
from sync_stack.orchestrator.server.metrics import OrchestratorMetrics
from sync_stack.orchestrator.server.process import OrchestratorProcess
from sync_stack.orchestrator.services import counters
from sync_stack.watcher.heal_requests import HealResult
from sync_stack.watcher.metrics import WatcherMetrics
from tests.support.bundles import changed, read_changed, valid
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
from tests.sync.gateway.world import bundle as gateway_bundle
from tests.sync.gateway.world import world


def touch(metrics: Any) -> str:
    """A sample of everything, so that labels can be seen."""
    for each in list(metrics.registry._collector_to_names):
        if isinstance(each, MetricWrapperBase) and each._labelnames:
            each.labels(*("x" for _ in each._labelnames))
        if isinstance(each, DurationHistogram):
            each.observe(0.0, *("x" for _ in each.label_names))
        if isinstance(each, LabeledCounter):
            each.begin(*("x" for _ in each.label_names))
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


def written_target(datasource: str, *, written: int, pruned: int = 0) -> TargetOutcome:
    return TargetOutcome(
        rule_id="shop",
        repo="acme/shop",
        ref="refs/heads/main",
        datasource=datasource,
        sync_mode="AUTO",
        written=written,
        pruned=pruned,
    )


def test_the_gateway_has_its_metrics():
    check(touch(GatewayMetrics(version="1", commit="abc")), GATEWAY)


def test_the_gateways_counters_of_closed_labels_begin_at_zero():
    value = GatewayMetrics(version="1", commit="abc").registry.get_sample_value

    calls = {"rpc_method": "ProcessWebhooks", "status": "UNAVAILABLE"}
    change = {"from_state": "closed", "to_state": "open"}
    assert value("gw_orchestrator_requests_total", calls) == 0
    assert value("gw_circuit_breaker_state_changes_total", change) == 0
    assert [value("gw_rate_limit_hits_total", {"scope": name}) for name in SCOPES] == [0, 0, 0]


def test_the_watcher_has_its_metrics():
    check(touch(WatcherMetrics(version="1")), WATCHER)


@pytest.mark.django_db
def test_the_orchestrator_has_its_metrics():
    counters.count_ended_tasks("webhook", "SUCCEEDED")
    counters.count_retry("git_timeout")
    counters.count_failure("parse_error")
    counters.count_superseded()
    counters.count_keys([written_target("redis", written=2, pruned=1)])
    counters.count_restore("ok")
    counters.count_fetch(0.2, ok=True)
    counters.observe(counters.TASK_SECONDS, 0.3, kind="webhook")
    counters.observe(counters.STAGE_SECONDS, 0.1, stage="git")
    counters.add("orch_worker_log_lines_dropped_total", 3, reason="queue_full")
    check(touch(OrchestratorMetrics(version="1")), ORCHESTRATOR)


@pytest.mark.django_db
def test_all_of_the_orchestrators_metrics_are_there_before_anything_happened():
    types = types_of(OrchestratorMetrics(version="1").text().decode())
    assert types.keys() >= ORCHESTRATOR.keys()


def test_the_watchers_counters_of_each_datasource_begin_at_zero():
    metrics = WatcherMetrics(version="1")
    metrics.expect(valid(read_changed(lambda _bundle: None)))
    value = metrics.registry.get_sample_value

    names = ("drift", "heal", "heal_verified")
    of_datasource = {"datasource": "mongo"}
    assert [value(f"svc_watcher_{name}_total", of_datasource) for name in names] == [0, 0, 0]
    for reason in set(HealResult) - {HealResult.HEALED, HealResult.SUPERSEDED}:
        assert value("svc_watcher_heal_failed_total", of_datasource | {"reason": reason}) == 0
    assert value("svc_watcher_poll_total", of_datasource | {"outcome": "error"}) == 0
    assert value("svc_watcher_drift_total", {"datasource": "redis"}) is None, "no rule names it"


@pytest.mark.django_db
def test_the_orchestrators_counters_begin_at_zero_and_go_on_from_the_store():
    counters.count_failure("parse_error")
    value = OrchestratorMetrics().registry.get_sample_value

    assert value("orch_tasks_total", {"kind": "webhook", "state": "DEAD"}) == 0
    assert value("orch_task_retries_total", {"code": "git_timeout"}) == 0
    assert value("orch_task_failures_total", {"code": "prune_guard"}) == 0
    assert value("orch_task_failures_total", {"code": "parse_error"}) == 1
    assert value("orch_restores_total", {"outcome": "error"}) == 0
    assert value("orch_superseded_total", {}) == 0


def with_a_second_rule(bundle: dict[str, Any]) -> None:
    bundle["rules"].append(bundle["rules"][0] | {"name": "stock", "datasource": "redis"})


async def test_the_gateways_webhooks_begin_at_zero_also_after_a_reload():
    async with world() as gw:
        value = gw.gateway.metrics.registry.get_sample_value
        rule = gw.gateway.compiled.bundle.rules[0]
        delivery = {"datasource": rule.segment, "platform": "github", "event_type": "push"}
        refused = {"datasource": rule.segment, "platform": "other", "event_type": "other"}
        moved = delivery | {"datasource": "moved", "outcome": "orchestrator_error"}

        assert value("gw_webhooks_total", delivery | {"outcome": "accepted"}) == 0
        assert value("gw_webhooks_total", refused | {"outcome": "signature_invalid"}) == 0
        assert value("gw_webhooks_total", moved) is None
        gw.gateway.apply(gateway_bundle(rules=(replace(rule, segment="moved"),)))
        assert value("gw_webhooks_total", moved) == 0


@pytest.mark.django_db
def test_the_orchestrators_counters_of_the_bundle_begin_at_zero_also_after_a_reload(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"bundle": changed(lambda _bundle: None)}))
    settings = BundleSettings(path=path, reload_interval_s=0)
    configuration = open_configuration(settings, Process.ORCHESTRATOR)
    counters.count_keys([written_target("mongo", written=2)])
    value = OrchestratorProcess(configuration).metrics.registry.get_sample_value
    delivery = {"platform": "github", "outcome": "error"}

    assert value("orch_keys_written_total", {"datasource": "mongo"}) == 2
    assert value("orch_keys_pruned_total", {"datasource": "mongo"}) == 0
    assert value("orch_webhooks_total", delivery | {"datasource": "mongo"}) == 0
    assert value("orch_keys_pruned_total", {"datasource": "redis"}) is None, "no rule names it"
    path.write_text(json.dumps({"bundle": changed(with_a_second_rule)}))
    assert configuration.file.reload() is Reload.OK
    assert value("orch_keys_pruned_total", {"datasource": "redis"}) == 0
    assert value("orch_webhooks_total", delivery | {"datasource": "redis"}) == 0
    configuration.close()


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
