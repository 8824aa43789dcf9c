"""The one thread through which a supervisor reaches the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from apps.executions.api import Recorded, ReportBatchResult, StaleAttempt
from apps.workers.control_plane import report_batcher
from apps.workers.control_plane.report_batcher import ReportBatcher
from kernel.agent_protocol import Completion, Job, StateReport
from tests.support.processes import until

JOB = Job(job_id="job", attempt=1)
REPORT = StateReport(job=JOB, state="running")
COMPLETION = Completion(job=JOB, status="succeeded")


class Store:
    """Refuses every report, once `answers` is set."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()

    def exchange(
        self, *, states: Any, chunks: Any, completions: Any, claims: int, looks_around: bool
    ) -> ReportBatchResult:
        del claims, looks_around
        self.asked.set()
        assert self.answers.wait(30)
        return ReportBatchResult(
            states=tuple(StaleAttempt() for _ in states),
            chunks=tuple(StaleAttempt() for _ in chunks),
            completions=tuple(StaleAttempt() for _ in completions),
        )


class FailingStore(Store):
    def exchange(self, **_reports: Any) -> ReportBatchResult:
        super().exchange(states=(), chunks=(), completions=(), claims=0, looks_around=True)
        raise OSError("the disk is full")


@pytest.fixture(params=[Store, FailingStore])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    store: Store = request.param()
    yield store
    store.answers.set()


def test_an_answer_that_nobody_waits_for_ends_nothing(store: Store) -> None:
    """Steps are dropped, and their calls canceled, while the store is asked."""
    gathering = ReportBatcher(store.exchange)
    gathering.start()
    dropped = gathering.add(REPORT)
    assert store.asked.wait(30)
    assert dropped.cancel()
    store.answers.set()

    completion = Completion(job=JOB, status="succeeded")
    assert gathering.add(completion).exception(timeout=180) is not None
    gathering.stop()


def test_a_claim_that_waited_long_is_answered_with_nothing(monkeypatch) -> None:
    """Its caller asks anew: from then on it counts how old a claimed step may be."""
    monkeypatch.setattr(report_batcher, "WAIT_S", 0.0)
    store = Store()
    store.answers.set()
    gathering = ReportBatcher(store.exchange)
    gathering.start()

    assert gathering.claim(4).result(timeout=180) == []
    gathering.stop()


class RecordingStore:
    """Takes every report and hands out nothing."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def exchange(self, **call: Any) -> ReportBatchResult:
        self.calls.append(call)
        return ReportBatchResult(
            states=tuple(Recorded(next_seq=0) for _ in call["states"]),
            chunks=tuple(Recorded(next_seq=0) for _ in call["chunks"]),
            completions=tuple(Recorded(next_seq=0) for _ in call["completions"]),
        )


@pytest.fixture
def recording(monkeypatch) -> Iterator[tuple[RecordingStore, ReportBatcher]]:
    """A gathering that has looked for work once; it looks again when it is told to."""
    monkeypatch.setattr(report_batcher, "POLL_INTERVAL_S", 60.0)
    store = RecordingStore()
    gathering = ReportBatcher(store.exchange)
    gathering.claim(4)
    gathering.start()
    until(lambda: len(store.calls) == 1, within_s=30)
    yield store, gathering
    gathering.stop()


def test_a_claim_that_rides_along_looks_only_at_the_runs_reported_on(recording) -> None:
    store, gathering = recording

    gathering.add(COMPLETION).result(timeout=180)

    assert store.calls[0]["looks_around"]
    assert (store.calls[1]["claims"], store.calls[1]["looks_around"]) == (4, False)


def test_a_nudge_makes_the_next_claim_look_at_all_runs(recording) -> None:
    store, gathering = recording

    gathering.work_may_wait()
    until(lambda: len(store.calls) == 2, within_s=30)
    gathering.add(COMPLETION).result(timeout=180)

    assert [call["looks_around"] for call in store.calls] == [True, True, False]


def test_a_state_travels_with_the_output_that_follows_it(recording, monkeypatch) -> None:
    """One transaction for a short step: nobody waits for its `running` to be stored."""
    monkeypatch.setattr(report_batcher, "STATE_LULLS", 5_000)
    monkeypatch.setattr(report_batcher, "STATE_BURST_S", 10.0)
    store, gathering = recording

    state = gathering.add(REPORT)
    gathering.add(COMPLETION).result(timeout=180)

    assert state.result(timeout=180) == Recorded(next_seq=0)
    assert [len(call["states"]) for call in store.calls[1:]] == [1]
