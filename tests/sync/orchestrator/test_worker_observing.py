"""A worker's child process: traces and log lines begin after its fork and end with it."""

from __future__ import annotations

import logging
import os

import pytest
from celery.signals import worker_process_init, worker_process_shutdown

from kernel import telemetry
from sync_stack.orchestrator import tasks
from sync_stack.orchestrator.server.metrics import OrchestratorMetrics
from tests.support.otlp import collecting
from tests.support.processes import until
from tests.support.search_index import serving


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a worker of the queue `sync`, without the control plane's apps."""
    monkeypatch.setattr(tasks, "_is_of_sync", lambda: True)


def test_a_workers_lines_are_shipped_from_its_start_to_its_end(alone, monkeypatch):
    handlers = list(logging.getLogger().handlers)
    with serving() as index, collecting() as collector:
        monkeypatch.setenv("ELK_ENABLED", "true")
        monkeypatch.setenv("ES_ENDPOINTS", index.url)
        monkeypatch.setenv("OTEL_ENABLED", "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        worker_process_init.send(sender=None)
        try:
            assert telemetry.is_configured()
            logging.getLogger("partita.sync.worker").warning("at work")
        finally:
            worker_process_shutdown.send(sender=None, pid=os.getpid(), exitcode=0)
        until(lambda: index.documents, within_s=30)
        assert [(line["service"], line["message"]) for line in index.documents] == [
            ("worker", "at work")
        ]
    assert not telemetry.is_configured()
    assert logging.getLogger().handlers == handlers


def test_a_worker_with_wrong_settings_says_so_and_ends(alone, monkeypatch, capsys):
    monkeypatch.setenv("ELK_ENABLED", "true")
    with pytest.raises(SystemExit) as ended:
        tasks._observe()
    assert ended.value.code == 78
    said = "ES_ENDPOINTS: required, because ELK_ENABLED is set\n"
    assert capsys.readouterr().err.endswith(said)


@pytest.mark.django_db
def test_lines_that_a_worker_lost_are_counted_by_the_orchestrator():
    tasks._drop("queue_full", 2)
    tasks._drop("queue_full", 3)
    tasks._count_dropped()
    tasks._count_dropped()
    found = OrchestratorMetrics().registry.get_sample_value(
        "orch_worker_log_lines_dropped_total", {"reason": "queue_full"}
    )
    assert found == 5
