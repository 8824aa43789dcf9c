"""A run is one trace (reference: control-plane 2): what a collector receives of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.executions.models import Execution
from apps.executions.services import run_aggregate
from apps.executions.services.cancellations import cancel
from apps.streams import api as streams
from kernel import telemetry
from kernel.telemetry import FinishedSpan, TelemetrySettings
from kernel.trace_context import parse_traceparent
from tests.apps.executions.runs import (
    Run,
    Worker,
    booted_run,
    let_retries_be_due,
    node,
    profile,
    queued_run,
    secret,
)
from tests.support.otlp import Collector, attributes, collecting

pytestmark = pytest.mark.store


class Trace:
    """What arrived, once everything that waited was sent; `spans` are those of the run itself."""

    def __init__(self, collector: Collector) -> None:
        telemetry.shutdown()
        self.spans = collector.own_spans
        self.all_spans = collector.spans

    @property
    def root(self):
        [root] = [span for span in self.spans if span.name == "execution"]
        return root

    def of(self, step: str) -> list[dict[str, Any]]:
        """The facts of the step's attempts, in their order."""
        facts = [attributes(span) for span in self.attempts(step)]
        return [{key: fact[key] for key in ("attempt", "status", "reason")} for fact in facts]

    def attempts(self, step: str) -> list[Any]:
        found = [span for span in self.spans if attributes(span).get("step_id") == step]
        return sorted(found, key=lambda span: attributes(span)["attempt"])


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as received:
        telemetry.configure(TelemetrySettings(endpoint=received.endpoint))
        yield received
        telemetry.shutdown()


def ns(instant: datetime | None) -> int:
    assert instant is not None
    return round(instant.timestamp() * 1_000_000) * 1000


def test_a_run_has_one_root_and_below_it_a_span_for_each_attempt(
    worker: Worker, collector: Collector
):
    run = booted_run(node("build"), node("check", kind="test", after=["build"]))
    worker.claim()
    worker.end("build")
    worker.claim()
    worker.end("check")
    trace = Trace(collector)
    root = trace.root
    assert len(trace.spans) == 3
    assert {span.trace_id for span in trace.spans} == {root.trace_id}
    assert not root.parent_span_id
    assert [span.parent_span_id for span in trace.attempts("build") + trace.attempts("check")] == [
        root.span_id,
        root.span_id,
    ]
    assert attributes(root) == {
        "execution_id": run.id,
        "suite": "demo",
        "profile": "",
        "backend_kind": "local",
        "status": "Healthy",
        "reason": "",
    }
    [check] = trace.attempts("check")
    assert check.name == "step check"
    assert attributes(check) == {
        "execution_id": run.id,
        "step_id": "check",
        "kind": "test",
        "attempt": 1,
        "status": "healthy",
        "reason": "",
    }


def test_spans_last_as_long_as_what_they_stand_for(worker: Worker, collector: Collector):
    run = booted_run(node("build"))
    worker.claim()
    worker.end("build")
    trace, row, step = Trace(collector), run.row, run.step("build")
    [build] = trace.attempts("build")
    assert trace.root.start_time_unix_nano == ns(row.started_at)
    assert trace.root.end_time_unix_nano == ns(row.finished_at)
    assert build.start_time_unix_nano == ns(step.started_at)
    assert build.end_time_unix_nano == ns(step.finished_at)


def test_the_specs_traceparent_names_the_span_of_the_attempt(worker: Worker, collector: Collector):
    booted_run(node("flaky", retries=1))
    worker.claim()
    first = worker.jobs["flaky"]
    worker.fail("flaky")
    let_retries_be_due()
    worker.claim()
    second = worker.jobs["flaky"]
    worker.end("flaky")
    spans = Trace(collector).attempts("flaky")
    for spec, span in zip((first, second), spans, strict=True):
        promised = parse_traceparent(spec["traceparent"])
        assert promised is not None
        assert promised.span_id == span.span_id.hex()
        assert promised.trace_id == span.trace_id.hex()
        assert spec["env"]["TRACEPARENT"] == spec["traceparent"]


def test_an_adopted_attempt_goes_on_in_its_span(worker: Worker):
    booted_run(node("build"))
    worker.claim()
    [kept] = worker.restarted().adopt(worker.jobs["build"]).keep
    assert kept.spec["traceparent"] == worker.jobs["build"]["traceparent"]


def test_a_retry_makes_a_second_span_and_the_first_one_failed(worker: Worker, collector: Collector):
    booted_run(node("flaky", retries=1))
    worker.claim()
    worker.fail("flaky")
    let_retries_be_due()
    worker.claim()
    worker.end("flaky")
    trace = Trace(collector)
    assert trace.of("flaky") == [
        {"attempt": 1, "status": "failed", "reason": "exit_nonzero"},
        {"attempt": 2, "status": "healthy", "reason": ""},
    ]
    first, second = trace.attempts("flaky")
    assert (first.status.code, first.status.message) == (2, "exit_nonzero")
    assert second.status.code == 0
    assert first.end_time_unix_nano <= second.start_time_unix_nano


def test_a_lost_attempt_ends_when_it_is_queued_again(worker: Worker, collector: Collector):
    booted_run(node("again", idempotent=True))
    worker.claim()
    worker.report("again", "running")
    successor = worker.restarted()
    successor.adopt()
    successor.claim()
    successor.end("again")
    assert Trace(collector).of("again") == [
        {"attempt": 1, "status": "requeued", "reason": "agent_lost"},
        {"attempt": 2, "status": "healthy", "reason": ""},
    ]


def test_the_span_of_a_service_lasts_until_it_was_stopped(worker: Worker, collector: Collector):
    run = booted_run(node("api", kind="service"), node("check", after=["api"]))
    worker.claim()
    worker.report("api", "healthy")
    worker.claim()
    worker.end("check")
    assert run.status == "Booting"
    worker.end("api", "canceled")
    trace = Trace(collector)
    assert trace.of("api") == [{"attempt": 1, "status": "healthy", "reason": ""}]
    assert trace.attempts("api")[0].end_time_unix_nano == trace.root.end_time_unix_nano


def test_what_was_never_claimed_has_no_span(worker: Worker, collector: Collector):
    run = booted_run(node("build"), node("ship", after=["build"]))
    worker.claim()
    worker.fail("build")
    trace = Trace(collector)
    assert run.statuses["ship"] == "skipped"
    assert trace.attempts("ship") == []
    assert attributes(trace.root)["reason"] == "step_failed"
    assert trace.root.status.code == 2


def test_a_canceled_run_ends_its_spans(worker: Worker, collector: Collector):
    run = booted_run(node("build"))
    worker.claim()
    cancel(run.principal, run.id, "enough")
    worker.end("build", "canceled")
    trace = Trace(collector)
    assert trace.of("build") == [{"attempt": 1, "status": "canceled", "reason": "canceled"}]
    assert attributes(trace.root)["status"] == "Canceled"


def test_a_log_node_is_an_attempt_too(collector: Collector):
    booted_run(node("note", kind="log", variant="info", message="hello"))
    trace = Trace(collector)
    assert trace.of("note") == [{"attempt": 1, "status": "healthy", "reason": ""}]
    assert len(trace.spans) == 2


def test_a_completion_that_is_sent_again_makes_no_second_span(worker: Worker, collector: Collector):
    booted_run(node("build"))
    worker.claim()
    worker.end("build")
    worker.end("build")
    assert len(Trace(collector).spans) == 2


def test_a_unit_of_work_that_is_repeated_tells_each_span_once(
    worker: Worker, collector: Collector, monkeypatch: pytest.MonkeyPatch
):
    booted_run(node("build"))
    worker.claim()
    lost = [streams.LostRace(), streams.LostRace()]
    append = streams.append

    def lose_first(batches):
        append(batches)
        if lost:
            raise lost.pop()

    monkeypatch.setattr(run_aggregate, "append", lose_first)
    worker.end("build")
    assert lost == []
    assert len(Trace(collector).spans) == 2


def test_traces_off_in_the_profile_injects_no_trace_context(worker: Worker, collector: Collector):
    silent = profile(observability={"logs": True, "traces": False, "metrics": True})
    booted_run(node("build"), with_profile=silent)
    worker.claim()
    spec = worker.jobs["build"]
    assert "traceparent" not in spec
    assert "TRACEPARENT" not in spec["env"]


def test_the_trace_context_of_a_step_cannot_be_overridden(worker: Worker):
    booted_run(
        node("build", env={"TRACEPARENT": "node"}, runtimeEnv={"TRACEPARENT": "runtime"}),
        with_profile=profile(env={"TRACEPARENT": "profile"}),
    )
    worker.claim()
    spec = worker.jobs["build"]
    assert spec["env"]["TRACEPARENT"] == spec["traceparent"]


def test_no_secret_and_no_words_of_a_step_are_in_its_spans(
    worker: Worker, collector: Collector, monkeypatch: pytest.MonkeyPatch
):
    """Invariant 19."""
    monkeypatch.setenv("PARTITA_SECRET_TOKEN", "hunter2-hunter2")
    booted_run(
        node("build", env={"KEY": "hunter2-hunter2"}),
        with_profile=profile(secret_refs=(secret("TOKEN", ref="token"),)),
    )
    worker.claim()
    assert worker.jobs["build"]["env"]["TOKEN"] == "hunter2-hunter2"
    worker.fail("build", error="the password hunter2-hunter2 was refused")
    trace = Trace(collector)
    assert len(trace.spans) == 2
    assert all(b"hunter2" not in span.SerializeToString() for span in trace.all_spans)


def test_a_run_without_a_trace_is_finished_all_the_same(worker: Worker, collector: Collector):
    """Stored before runs had traces."""
    run = booted_run(node("build"))
    Execution.objects.filter(pk=run.pk).update(traceparent="")
    worker.claim()
    worker.end("build")
    assert run.status == "Healthy"
    assert Trace(collector).spans == []


@pytest.mark.slow
def test_an_unreachable_collector_fails_no_run(worker: Worker):
    telemetry.configure(TelemetrySettings(endpoint="127.0.0.1:1"))
    try:
        run = booted_run(node("build"))
        worker.claim()
        worker.end("build")
        assert run.status == "Healthy"
    finally:
        telemetry.shutdown(timeout_ms=100)
        telemetry._state.last_export_ok = True


def test_what_cannot_be_measured_fails_nothing_that_is_committed(
    worker: Worker, collector: Collector, monkeypatch
):
    """Invariant 34: not even by a fault of our own."""

    def fails(_span: FinishedSpan) -> None:
        raise RuntimeError("no span today")

    monkeypatch.setattr(telemetry, "record", fails)
    run = booted_run(node("build"), node("check", kind="test", after=["build"]))
    worker.claim()
    worker.end("build")
    worker.claim()
    worker.end("check")

    assert run.status == "Healthy"


def test_tracing_asks_the_store_nothing(worker: Worker):
    def queries(run: Run) -> int:
        worker.claim()
        with CaptureQueriesContext(
            connection,
        ) as told:
            worker.end("build")
        assert run.status == "Healthy"
        return len(told)

    without = queries(booted_run(node("build")))
    with collecting() as received:
        telemetry.configure(TelemetrySettings(endpoint=received.endpoint))
        traced = queries(booted_run(node("build")))
        telemetry.shutdown()
    assert traced == without


def test_without_telemetry_runs_still_hand_a_trace_on_and_export_nothing(worker: Worker):
    run = queued_run(node("build"))
    assert parse_traceparent(run.row.traceparent)
    assert run.row.parent_span_id == ""
    assert not telemetry.is_configured()
    assert "kernel.otlp" not in sys.modules or telemetry.meter() is None
