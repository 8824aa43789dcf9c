"""`up` with a collector: the trace and the metrics of a run, from the request to the steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.otlp import Collector, attributes, collecting
from tests.support.processes import until
from tests.support.up import Up, write_suite

CALLER = f"00-{'c' * 32}-{'d' * 16}-01"
STAR = """
load("@partita/runtime", "task")

first = task.run(name = "first", image = "busybox:1.36", file = "tell.sh")
task.run(name = "second", image = "busybox:1.36", file = "tell.sh", after = [first])
"""
TELL = """
echo "trace $TRACEPARENT"
env | grep ^OTEL | sort
"""
QUIET = "name: Quiet\nobservability: {traces: false}\n"
OPEN = "name: Open\ndefault: true\n"


@pytest.fixture(params=["grpc", "http/protobuf"])
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    with collecting(request.param) as received:
        yield received


@pytest.fixture
def up(collector: Collector, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Up]:
    profiles = {"profiles/quiet.yaml": QUIET, "profiles/open.yaml": OPEN}
    write_suite(tmp_path / "suites", "telling", STAR, {"tasks/tell.sh": TELL, **profiles})
    up = Up(
        tmp_path / "up",
        LOCAL_RUNTIME="process",
        SUITES_DIR=str(tmp_path / "suites"),
        UP_DEMO="0",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
        OTEL_EXPORTER_OTLP_PROTOCOL=request.node.callspec.params["collector"],
        OTEL_EXPORTER_OTLP_HEADERS="x-tenant=hunter2",
        OTEL_BSP_SCHEDULE_DELAY="200",
    )
    yield up.start()
    up.end()


def launched(up: Up, profile: str) -> str:
    body = {"suiteId": "telling", "profile": profile}
    with up.client() as client:
        answer = client.post("/executions", json=body, headers={"traceparent": CALLER})
    assert answer.status_code == 201, answer.text
    run_id = str(answer.json()["id"])
    assert up.wait_for(run_id)["status"] == "Healthy"
    return run_id


def spans_of(collector: Collector, run_id: str) -> list[Any]:
    return [span for span in collector.spans if attributes(span).get("execution_id") == run_id]


def test_a_run_is_one_trace_from_the_request_to_the_environment_of_its_steps(
    up: Up, collector: Collector
):
    """Invariant 19."""
    run_id = launched(up, "open.yaml")

    spans = until(
        lambda: found if len(found := spans_of(collector, run_id)) == 3 else None,
        within_s=30,
        what="the spans of the run",
    )
    [root] = [span for span in spans if span.name == "execution"]
    steps = {span.name: span for span in spans if span is not root}
    [request] = [
        span
        for span in collector.spans
        if span.span_id == root.parent_span_id and span.trace_id == root.trace_id
    ]
    assert request.name == "/api/v1/executions"
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == ("c" * 32, "d" * 16)
    assert {span.trace_id.hex() for span in spans} == {"c" * 32}
    assert {span.parent_span_id for span in steps.values()} == {root.span_id}
    for name in ("first", "second"):
        told = [line["text"] for line in up.lines(run_id, source=name) if line["kind"] == "output"]
        own = steps[f"step {name}"].span_id.hex()
        assert told[0] == f"trace 00-{'c' * 32}-{own}-01"
        assert [line.split("=")[0] for line in told[1:]] == [
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ]
        assert collector.endpoint in told[1]
    assert any(headers.get("x-tenant") == "hunter2" for headers in collector.headers)
    assert all(b"hunter2" not in span.SerializeToString() for span in collector.spans)


def test_the_last_counts_leave_when_up_ends_and_a_quiet_profile_tells_its_steps_nothing(
    up: Up, collector: Collector
):
    run_id = launched(up, "quiet.yaml")
    told = [line["text"] for line in up.lines(run_id, source="first") if line["kind"] == "output"]

    up.ends()

    assert told == ["trace "]
    [finished] = collector.metric("partita.executions.finished").sum.data_points
    assert attributes(finished) == {"backend_kind": "local", "status": "Healthy", "reason": ""}
    assert finished.as_double == 1
    [took] = collector.metric("partita.step.duration.ms").histogram.data_points
    assert took.count == 2
    assert len(spans_of(collector, run_id)) == 3
