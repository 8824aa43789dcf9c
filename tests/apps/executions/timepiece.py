"""The time of what happens to runs, which a test moves on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from apps.executions import api
from apps.executions.services import run_aggregate
from kernel import clock
from kernel.agent_protocol import LogChunk, LogLine, job_of
from tests.apps.executions.runs import Run, Worker, booted_run, let_retries_be_due, node


class Timepiece:
    """A clock that stands still between the calls of `wait`."""

    def __init__(self) -> None:
        self.now = clock.now()

    def wait(self, milliseconds: int) -> None:
        self.now += timedelta(milliseconds=milliseconds)

    def __call__(self) -> datetime:
        return self.now


def timepiece_of_runs(patch: pytest.MonkeyPatch) -> Timepiece:
    """Return the clock of transitions alone: sessions and leases keep the real one."""
    moved = Timepiece()
    patch.setattr(run_aggregate, "clock", SimpleNamespace(now=moved))
    return moved


def write_lines(worker: Worker, step: str, times: Iterable[datetime], *, seq: int = 0) -> None:
    """Send a line of each of these times, `<step> <number>`."""
    lines = [
        LogLine(time, "info", "output", f"{step} {number}")
        for number, time in enumerate(times, start=seq)
    ]
    chunk = LogChunk(job=job_of(worker.jobs[step]), seq=seq, position=seq, lines=lines)
    api.record_reports(worker.supervisor, chunks=[chunk])


def slow_run(worker: Worker, timepiece: Timepiece, **facts: Any) -> Run:
    """db is pulled for 400 ms and ready after 100; check fails once and then succeeds."""
    run = booted_run(node("db", kind="service"), node("check", after=["db"], retries=1), **facts)
    timepiece.now = run.row.started_at
    timepiece.wait(100)
    worker.claim()
    worker.report("db", "image-pull")
    timepiece.wait(400)
    worker.report("db", "running")
    timepiece.wait(100)
    worker.report("db", "healthy")
    worker.claim()
    worker.report("check", "running")
    write_lines(worker, "check", [timepiece.now + timedelta(milliseconds=ms) for ms in (0, 500)])
    timepiece.wait(1000)
    worker.fail("check")
    timepiece.wait(5000)
    let_retries_be_due()
    worker.claim()
    worker.report("check", "running")
    write_lines(worker, "check", [timepiece.now + timedelta(milliseconds=ms) for ms in (0, 1500)])
    timepiece.wait(2000)
    worker.end("check")
    timepiece.wait(50)
    worker.end("db", "canceled")
    return run
