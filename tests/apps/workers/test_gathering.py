"""The one thread through which a supervisor reaches the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from apps.executions.api import Completion, ExchangeAnswer, StaleAttempt, StateReport
from apps.workers.control_plane import gathering as gatherings
from apps.workers.control_plane.gathering import Gathering

REPORT = StateReport(job_id="job", attempt=1, state="running")


class Store:
    """Refuses every report, once `answers` is set."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()

    def exchange(
        self, *, states: Any, chunks: Any, completions: Any, claims: int
    ) -> ExchangeAnswer:
        del claims
        self.asked.set()
        assert self.answers.wait(10)
        return ExchangeAnswer(
            states=tuple(StaleAttempt() for _ in states),
            chunks=tuple(StaleAttempt() for _ in chunks),
            completions=tuple(StaleAttempt() for _ in completions),
        )


class FailingStore(Store):
    def exchange(self, **_reports: Any) -> ExchangeAnswer:
        super().exchange(states=(), chunks=(), completions=(), claims=0)
        raise OSError("the disk is full")


@pytest.fixture(params=[Store, FailingStore])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    store: Store = request.param()
    yield store
    store.answers.set()


def test_an_answer_that_nobody_waits_for_ends_nothing(store: Store) -> None:
    """Steps are dropped, and their calls canceled, while the store is asked."""
    gathering = Gathering(store.exchange)
    gathering.start()
    dropped = gathering.state(REPORT)
    assert store.asked.wait(10)
    assert dropped.cancel()
    store.answers.set()

    completion = Completion(job_id="job", attempt=1, status="succeeded")
    assert gathering.completion(completion).exception(timeout=10) is not None
    gathering.stop()


def test_a_claim_that_waited_long_is_answered_with_nothing(monkeypatch) -> None:
    """Its caller asks anew: from then on it counts how old a claimed step may be."""
    monkeypatch.setattr(gatherings, "WAIT_S", 0.0)
    store = Store()
    store.answers.set()
    gathering = Gathering(store.exchange)
    gathering.start()

    assert gathering.claim(4).result(timeout=10) == []
    gathering.stop()
