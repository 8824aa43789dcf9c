"""The three processes as an operator sees them: Prometheus, a collector, a search index, health."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.git_server import Repository
from tests.support.otlp import Collector, attributes, collecting
from tests.support.processes import Process, until
from tests.support.prometheus import Prometheus, lint, need_prometheus, scraping
from tests.support.search_index import SearchIndex, serving
from tests.support.servers import free_port
from tests.support.sync_metrics import GATEWAY, ORCHESTRATOR, SHARED, WATCHER

pytestmark = pytest.mark.slow
SECRET = "a-webhook-secret-that-nobody-may-see"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SENDER = "b7ad6b7169203331"
PATIENCE_S = 60


class Stack:
    """Gateway, orchestrator and watcher with a sink of files; all that leaves them comes here."""

    def __init__(self, folder: Path, collector: Collector, index: SearchIndex) -> None:
        self.folder, self.collector, self.index = folder, collector, index
        self.repository = Repository(folder / "git")
        (folder / "out").mkdir()
        (folder / "config.json").write_text(json.dumps({"bundle": self._bundle()}))
        self.webhooks, self.grpc = free_port(), free_port()
        self.admin = {name: free_port() for name in ("gateway", "orchestrator", "watcher")}
        self.processes = [self._process(name) for name in self.admin]

    def _bundle(self) -> dict[str, Any]:
        endpoint = f"file://{self.repository.folder}/bare"
        return {
            "platforms": [{"github": {"endpoint": endpoint, "secret": SECRET}}],
            "datasources": [{"file": {"root": str(self.folder / "out")}}],
            "rules": [
                {
                    "name": "shop",
                    "platform": "github",
                    "datasource": "file",
                    "repositories": ["acme/*"],
                    "file_name": "app.yaml",
                    "branch_map": {"main": "production"},
                    "destination_template": "{env}.json",
                    "self_heal": True,
                }
            ],
        }

    def _process(self, name: str) -> Process:
        line = [sys.executable, "manage.py", f"run_{name}"]
        if name == "orchestrator":
            line.append("--migrate")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "APP_ENV": "development",
            "CONFIG_PATH": str(self.folder / "config.json"),
            "DB_DRIVER": "sqlite",
            "SQLITE_PATH": str(self.folder / "store.sqlite3"),
            "SECRET_KEY": "a-secret-key-of-a-test-0123456789-0123456789-0123456789",
            "GIT_CACHE_DIR": str(self.folder / "cache"),
            "GATEWAY_ADDR": f"127.0.0.1:{self.webhooks}",
            "ADMIN_ADDR": f"127.0.0.1:{self.admin[name]}",
            "ORCHESTRATOR_GRPC_ADDR": f"127.0.0.1:{self.grpc}",
            "ORCHESTRATOR_HTTP_ADDR": f"127.0.0.1:{self.admin['orchestrator']}",
            "ORCHESTRATOR_ADDR": f"127.0.0.1:{self.grpc}",
            "POLL_INTERVAL": "1s",
            "OTEL_ENABLED": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "ELK_ENABLED": "true",
            "ES_ENDPOINTS": self.index.url,
        }
        return Process(name, line, environment, self.folder / f"{name}.log")

    @property
    def targets(self) -> dict[str, str]:
        return {name: f"127.0.0.1:{port}" for name, port in self.admin.items()}

    def page(self, name: str, path: str) -> httpx.Response:
        return httpx.get(f"http://{self.targets[name]}{path}", trust_env=False)

    def status(self, name: str, path: str) -> int:
        with contextlib.suppress(httpx.HTTPError):
            return self.page(name, path).status_code
        return 0

    def push(self, files: dict[str, str | None]) -> httpx.Response:
        commit = self.repository.commit(files)
        body = {"ref": "refs/heads/main", "after": commit, "repository": {"full_name": "acme/shop"}}
        raw = json.dumps(body).encode()
        signature = hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
        headers = {
            "content-type": "application/json",
            "x-github-event": "push",
            "x-github-delivery": commit,
            "x-hub-signature-256": f"sha256={signature}",
            "traceparent": f"00-{TRACE}-{SENDER}-01",
        }
        url = f"http://127.0.0.1:{self.webhooks}/webhooks/file"
        return httpx.post(url, content=raw, headers=headers, trust_env=False)

    @property
    def live(self) -> Path:
        return self.folder / "out" / "production.json"

    def values(self) -> dict[str, Any]:
        return dict(json.loads(self.live.read_text())) if self.live.exists() else {}

    def logs(self) -> str:
        return "\n".join(process.tail() for process in self.processes)

    def end(self) -> None:
        for process in self.processes:
            process.end()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    need_prometheus()
    with ExitStack() as parts:
        collector = parts.enter_context(collecting())
        made = Stack(tmp_path, collector, parts.enter_context(serving()))
        parts.callback(made.end)
        for process in made.processes:
            process.start()
        yield made


def test_prometheus_scrapes_all_three_and_one_trace_leads_from_the_webhook_to_the_stages(
    stack: Stack, tmp_path: Path
):
    """Sync invariant 24: nothing that leaves holds the secret."""
    check_health(stack)
    with scraping(tmp_path / "prometheus", free_port(), stack.targets) as prometheus:
        tell_the_story(stack)
        check_types(prometheus)
        check_figures(prometheus)
    for name in stack.admin:
        lint(stack.page(name, "/metrics").text)
    check_trace_of_push(stack.collector)
    check_trace_of_heal(stack.collector)
    check_lines(stack)
    for process in stack.processes:
        assert process.stop(within_s=30) == 0, process.tail()
    left = json.dumps(stack.index.documents) + str(stack.collector.spans) + stack.logs()
    assert SECRET not in left


def check_health(stack: Stack) -> None:
    prefixes = {"gateway": "", "orchestrator": "/v1", "watcher": ""}
    for name, prefix in prefixes.items():
        for path in (f"{prefix}/health/liveness", f"{prefix}/health/readiness"):
            check_status(stack, name, path)


def check_status(stack: Stack, name: str, path: str) -> None:
    until(
        lambda: stack.status(name, path) == 200,
        within_s=PATIENCE_S,
        what=lambda: f"{name}{path}\n{stack.logs()}",
    )


def tell_the_story(stack: Stack) -> None:
    """A push that is applied, and a change by hand that is healed."""
    assert stack.push({"app.yaml": "a: 1\nb: 2\n"}).status_code == 202
    wanted = {"a": "1", "b": "2"}
    until(lambda: stack.values() == wanted, within_s=PATIENCE_S, what=stack.logs)
    in_sync = 'svc_watcher_targets{status="in_sync"} 1.0'
    until(lambda: in_sync in stack.page("watcher", "/metrics").text, within_s=PATIENCE_S)
    stack.live.write_text(json.dumps({"a": "9", "b": "2"}))
    until(lambda: stack.values() == wanted, within_s=PATIENCE_S, what=stack.logs)


def check_types(prometheus: Prometheus) -> None:
    named = {**GATEWAY, **ORCHESTRATOR, **WATCHER, **SHARED}
    wanted = {name: kind for name, (kind, _labels) in named.items()}
    until(lambda: prometheus.types().keys() >= wanted.keys(), within_s=PATIENCE_S)
    types = prometheus.types()
    assert {name: types[name] for name in wanted} == wanted


def check_figures(prometheus: Prometheus) -> None:
    """The spec's metrics, and what each process counts of the story."""
    for expression in (
        'gw_webhooks_total{datasource="file",platform="github",event_type="push",outcome="accepted"}',
        'gw_orchestrator_requests_total{rpc_method="ProcessWebhooks",status="OK"}',
        'orch_webhooks_total{datasource="file",platform="github",outcome="ok"}',
        'orch_tasks_total{kind="webhook",state="SUCCEEDED"}',
        'orch_task_duration_seconds_count{kind="webhook"}',
        'orch_stage_duration_seconds_count{stage="apply"}',
        'orch_git_fetch_duration_seconds_count{outcome="ok"}',
        'svc_watcher_drift_total{datasource="file"}',
        'svc_watcher_heal_total{datasource="file"}',
        'svc_watcher_heal_verified_total{datasource="file"}',
        'svc_watcher_poll_duration_seconds_count{datasource="file"}',
        "svc_watcher_leader",
    ):
        until(lambda ask=expression: prometheus.value(ask) >= 1, within_s=30, what=expression)  # type: ignore[misc]
    quantile = "histogram_quantile(0.9, orch_task_duration_seconds_bucket)"
    assert 0 < prometheus.value(quantile) < 60


def spans_by_name(collector: Collector, trace_id: str) -> dict[str, Any]:
    mine = [span for span in collector.spans if span.trace_id.hex() == trace_id]
    return {span.name: span for span in mine}


def check_trace_of_push(collector: Collector) -> None:
    stages = {f"sync.{name}" for name in ("git", "plan", "apply", "verify")}
    webhook, call = "POST /webhooks/{datasource}", "partita.sync.v1.Orchestrator/ProcessWebhooks"
    wanted = stages | {webhook, call, "sync.task"}
    until(lambda: wanted <= spans_by_name(collector, TRACE).keys(), within_s=30)
    spans = spans_by_name(collector, TRACE)
    parents = {name: span.parent_span_id.hex() for name, span in spans.items()}
    assert parents[webhook] == SENDER
    assert parents[call] == spans[webhook].span_id.hex()
    assert parents["sync.task"] == spans[call].span_id.hex()
    assert {parents[name] for name in stages} == {spans["sync.task"].span_id.hex()}
    assert attributes(spans["sync.task"])["sync.state"] == "SUCCEEDED"
    services = {resource["service.name"] for resource in collector.resources}
    assert services == {f"partita-sync-{name}" for name in ("gateway", "orchestrator", "watcher")}


def check_trace_of_heal(collector: Collector) -> None:
    until(lambda: any(span.name == "sync.heal" for span in collector.spans), within_s=30)
    heal = next(span for span in collector.spans if span.name == "sync.heal")
    call = "partita.sync.v1.Orchestrator/TriggerSync"
    spans = spans_by_name(collector, heal.trace_id.hex())
    assert spans.keys() >= {"sync.heal", call, "sync.task", "sync.apply"}
    assert spans[call].parent_span_id == heal.span_id
    assert attributes(heal)["sync.outcome"] == "healed"


def check_lines(stack: Stack) -> None:
    def seen() -> set[tuple[str, str]]:
        return {(line["service"], line["event"]) for line in stack.index.documents}

    wanted = {
        ("gateway", "started"),
        ("orchestrator", "started"),
        ("watcher", "drift_detected"),
        ("watcher", "heal_ended"),
    }
    until(lambda: wanted <= seen(), within_s=30, what=str(seen()))
    drift = next(line for line in stack.index.documents if line["event"] == "drift_detected")
    assert drift["changed"] == ["a"]
    assert drift["@timestamp"]
