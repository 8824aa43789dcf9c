"""What a profile turns off is not there, and what is measured is kept.

(reference: control-plane 6.1, 11.2)
"""

from __future__ import annotations

from typing import Any

from apps.executions import api
from apps.executions.models import Step
from kernel import clock
from kernel.agent_protocol import LogChunk, LogLine, StepUsage, job_of
from tests.apps.executions.runs import (
    Run,
    Worker,
    booted_run,
    let_retries_be_due,
    node,
    output_line,
    profile,
)

LOW = StepUsage(cpu_percent=2.5, memory_bytes=10, memory_peak_bytes=10)
HIGH = StepUsage(cpu_percent=80.0, memory_bytes=90, memory_peak_bytes=90)


def off(*names: str) -> Any:
    turned = {"logs": True, "traces": True, "metrics": True} | dict.fromkeys(names, False)
    return profile(observability=turned)


def renew(worker: Worker, step: str, usage: StepUsage) -> None:
    job = worker.jobs[step]
    api.renew(worker.supervisor, [job_of(job)], {job_of(job): usage})


def usage(run: Run, step: str) -> tuple[Any, ...]:
    row: Step = run.step(step)
    return (row.cpu_percent, row.memory_bytes, row.memory_peak_bytes)


def test_a_claimed_spec_says_what_the_profile_turns_off(worker: Worker):
    booted_run(node("a"), with_profile=off("metrics"))
    worker.claim()

    observability = worker.jobs["a"]["observability"]
    assert observability == {"logs": True, "traces": True, "metrics": False}


def test_the_peak_never_falls_within_an_attempt(worker: Worker):
    run = booted_run(node("a"))
    worker.claim()

    renew(worker, "a", HIGH)
    renew(worker, "a", LOW)
    assert usage(run, "a") == (2.5, 10, 90)
    worker.end("a", usage=StepUsage(cpu_percent=3.0, memory_bytes=20))
    assert usage(run, "a") == (3.0, 20, 90)


def test_a_completion_without_usage_leaves_the_last_figures(worker: Worker):
    run = booted_run(node("a"))
    worker.claim()

    renew(worker, "a", LOW)
    worker.end("a")
    assert usage(run, "a") == (2.5, 10, 10)


def test_another_attempt_starts_without_figures(worker: Worker):
    run = booted_run(node("a", retries=1))
    worker.claim()
    renew(worker, "a", HIGH)

    worker.fail("a", usage=HIGH)
    assert usage(run, "a") == (None, None, None)
    let_retries_be_due()
    worker.claim()
    worker.end("a", usage=LOW)
    assert usage(run, "a") == (2.5, 10, 10)


def test_without_logs_only_system_lines_and_events_are_kept(worker: Worker):
    run = booted_run(node("a"), with_profile=off("logs"))
    worker.claim()
    job = worker.jobs["a"]
    lines = [
        output_line("said by the program"),
        LogLine(clock.now(), "info", "system", "said by its supervisor"),
        LogLine(clock.now(), "info", "metric", "{}"),
    ]
    chunk = LogChunk(job=job_of(job), seq=0, position=2, lines=lines)

    told = api.record_reports(worker.supervisor, chunks=[chunk]).chunks[0]
    worker.end("a", final_seq=3)

    assert isinstance(told, api.Recorded)
    assert told.next_seq == 3
    assert run.status == "Healthy"
    kept = run.lines("output", "system", "metric", "user")
    assert [line["text"] for line in kept] == ["said by its supervisor"]
    assert len(run.lines("")) == len(run.events())


def test_without_logs_a_log_node_ends_well_and_writes_nothing():
    run = booted_run(
        node("hello", kind="log", variant="info", message="hello"), with_profile=off("logs")
    )

    assert run.status == "Healthy"
    assert run.lines("user") == []
    assert "hello-healthy" in run.event_ids()
