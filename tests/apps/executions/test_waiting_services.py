"""What a service that is not ready waits for is part of its step while it waits, and only then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.executions import api
from apps.executions.selectors.probes import ProbesTaker
from apps.streams.api import ViewOver
from kernel import clock
from kernel.agent_protocol import Job, ProbeProgress, job_of
from tests.apps.executions.runs import Run, Worker, booted_run, let_retries_be_due, node

REFUSED = ProbeProgress(answer="port 8080: connection refused", tries=7, time_left_ms=53_000)


def told(worker: Worker, step: str, probe: ProbeProgress = REFUSED, **changes: Any) -> None:
    spec = worker.jobs[step]
    job = Job(job_id=spec["jobId"], attempt=changes.get("attempt", job_of(spec).attempt))
    api.renew(worker.supervisor, [job], {}, {job: probe})


def probe_of(run: Run, step: str) -> Any:
    steps = api.run_detail(run.id)["steps"]
    return next(one for one in steps if one["id"] == step).get("probe")


def streamed(run: Run) -> Any:
    return json.loads(ProbesTaker(run.id)())


@pytest.mark.store
def test_a_waiting_service_shows_the_answer_the_tries_and_the_deadline(worker: Worker):
    run = booted_run(node("db", kind="service"))
    worker.claim()
    before = clock.now()
    told(worker, "db")

    shown = probe_of(run, "db")
    left = clock.parse_rfc3339(shown.pop("deadline")) - before
    assert shown == {"answer": "port 8080: connection refused", "tries": 7}
    assert 52.9 < left.total_seconds() < 58
    assert [(one["id"], one["attempt"]) for one in streamed(run)["steps"]] == [("db", 1)]


def test_a_later_answer_replaces_it_and_is_cut(worker: Worker):
    run = booted_run(node("db", kind="service"))
    worker.claim()
    told(worker, "db")
    told(worker, "db", ProbeProgress(answer="x" * 500, tries=8, time_left_ms=1))

    assert (probe_of(run, "db")["answer"], probe_of(run, "db")["tries"]) == ("x" * 200, 8)


@pytest.mark.store
def test_it_is_gone_once_the_service_is_healthy_even_if_the_last_answer_comes_late(worker: Worker):
    run = booted_run(node("db", kind="service"))
    worker.claim()
    told(worker, "db")
    api.record_reports(worker.supervisor, states=[worker.state("db", "healthy")])
    assert probe_of(run, "db") is None
    told(worker, "db")

    assert probe_of(run, "db") is None
    assert streamed(run)["steps"] == []


def test_another_attempt_begins_without_it(worker: Worker):
    run = booted_run(node("db", kind="service", retries=1))
    worker.claim()
    told(worker, "db")
    worker.fail("db", reason="not_ready")
    let_retries_be_due()
    worker.claim()

    assert probe_of(run, "db") is None


def test_a_supervisor_that_no_longer_has_the_attempt_changes_nothing(worker: Worker):
    run = booted_run(node("db", kind="service"))
    worker.claim()
    told(worker, "db", attempt=2)

    assert probe_of(run, "db") is None


def test_a_renewal_without_a_probe_as_older_workers_send_it_keeps_the_answer(worker: Worker):
    run = booted_run(node("db", kind="service"))
    worker.claim()
    told(worker, "db")
    worker.renew("db")

    assert probe_of(run, "db")["tries"] == 7


def test_the_stream_of_the_probes_ends_with_the_run(worker: Worker):
    run = booted_run(node("a"))
    worker.claim()
    worker.end("a")

    with pytest.raises(ViewOver, match="Healthy"):
        streamed(run)
