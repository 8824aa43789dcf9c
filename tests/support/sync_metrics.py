"""The metrics of the sync stack: process → name → (type, labels)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

Named = Mapping[str, tuple[str, tuple[str, ...]]]

SHARED: Final[Named] = {
    "sync_bundle_reloads_total": ("counter", ("outcome",)),
    "sync_log_lines_dropped_total": ("counter", ("reason",)),
}
GATEWAY: Final[Named] = {
    "gw_http_requests_total": ("counter", ("method", "route", "status_code")),
    "gw_http_request_duration_seconds": ("histogram", ("method", "route")),
    "gw_webhooks_total": ("counter", ("datasource", "event_type", "outcome", "platform")),
    "gw_orchestrator_requests_total": ("counter", ("rpc_method", "status")),
    "gw_orchestrator_request_duration_seconds": ("histogram", ("rpc_method",)),
    "gw_circuit_breaker_state": ("gauge", ()),
    "gw_circuit_breaker_state_changes_total": ("counter", ("from_state", "to_state")),
    "gw_rate_limit_hits_total": ("counter", ("scope",)),
    "gw_replay_store_errors_total": ("counter", ()),
    "gw_inbox_deliveries": ("gauge", ("state",)),
    "gw_secret_resolutions_total": ("counter", ("manager", "outcome")),
    "gw_build_info": ("gauge", ("commit", "version")),
}
ORCHESTRATOR: Final[Named] = {
    "orch_http_requests_total": ("counter", ("method", "route", "status_code")),
    "orch_http_request_duration_seconds": ("histogram", ("method", "route")),
    "orch_grpc_requests_total": ("counter", ("rpc_method", "status")),
    "orch_grpc_request_duration_seconds": ("histogram", ("rpc_method",)),
    "orch_webhooks_total": ("counter", ("datasource", "outcome", "platform")),
    "orch_tasks_total": ("counter", ("kind", "state")),
    "orch_task_duration_seconds": ("histogram", ("kind",)),
    "orch_task_retries_total": ("counter", ("code",)),
    "orch_task_failures_total": ("counter", ("code",)),
    "orch_task_queue_depth": ("gauge", ("state",)),
    "orch_task_oldest_pending_seconds": ("gauge", ()),
    "orch_stage_duration_seconds": ("histogram", ("stage",)),
    "orch_keys_written_total": ("counter", ("datasource",)),
    "orch_keys_pruned_total": ("counter", ("datasource",)),
    "orch_restores_total": ("counter", ("outcome",)),
    "orch_superseded_total": ("counter", ()),
    "orch_git_fetch_duration_seconds": ("histogram", ("outcome",)),
    "orch_stale_targets": ("gauge", ()),
    "orch_worker_log_lines_dropped_total": ("counter", ("reason",)),
    "orch_build_info": ("gauge", ("version",)),
}
WATCHER: Final[Named] = {
    "svc_watcher_drift_total": ("counter", ("datasource",)),
    "svc_watcher_heal_total": ("counter", ("datasource",)),
    "svc_watcher_poll_duration_seconds": ("histogram", ("datasource",)),
    "svc_watcher_heal_verified_total": ("counter", ("datasource",)),
    "svc_watcher_heal_failed_total": ("counter", ("datasource", "reason")),
    "svc_watcher_poll_total": ("counter", ("datasource", "outcome")),
    "svc_watcher_targets": ("gauge", ("status",)),
    "svc_watcher_drift_keys": ("gauge", ("datasource", "env", "rule")),
    "svc_watcher_flapping": ("gauge", ("env", "rule")),
    "svc_watcher_foreign_keys": ("gauge", ("datasource",)),
    "svc_watcher_last_poll_timestamp_seconds": ("gauge", ("datasource",)),
    "svc_watcher_leader": ("gauge", ()),
    "svc_watcher_build_info": ("gauge", ("version",)),
}


def types_of(exposition: str) -> dict[str, str]:
    """Name → type, as the `# TYPE` lines have it."""
    lines = (line.split() for line in exposition.splitlines() if line.startswith("# TYPE "))
    return {name: kind for _, _, name, kind in lines}


def labels_of(exposition: str) -> dict[str, tuple[str, ...]]:
    """Name → labels of its samples, without a histogram's `le`; only what has samples."""
    types, found = types_of(exposition), {}
    for family in text_string_to_metric_families(exposition):
        name = family.name if family.name in types else f"{family.name}_total"
        for sample in family.samples:
            found[name] = tuple(sorted(sample.labels.keys() - {"le"}))
    return found
