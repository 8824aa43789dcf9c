"""`reset_mocks`: a step is handed out once the mocks that it names are empty."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.executions.models import Step
from apps.executions.services import mock_resets
from apps.mocks import api as mocks
from apps.streams.api import DatastoreUnavailable
from kernel import clock
from tests.apps.executions.mocks import MockPlane
from tests.apps.executions.runs import Run, Worker, booted_run, let_retries_be_due, node

SERVED = {"psp": {"pay": "rest", "bank": "grpc"}, "in/psp": {"pay": "rest"}}


def started(**facts: Any) -> Run:
    return booted_run(
        node("in/x", sourceSuiteId="inner"),
        node("t", **{"resetMocks": ["psp", "in/psp"], **facts}),
        mocks=SERVED,
    )


def test_mocks_are_emptied_before_the_claim_is_answered(plane: MockPlane, worker: Worker):
    run = started()

    assert worker.claim() == ["in/x", "t"]
    assert plane.resets == [
        (f"demo@{run.id}", ["bank", "pay"]),
        (f"inner@{run.id}+in", ["pay"]),
    ]
    assert plane.asked == plane.resets, "in force before the step begins"
    text = {event["id"]: event["text"] for event in run.events()}
    assert text["t-reset-mocks"] == "the state of psp, in/psp is empty"
    assert "in/x-reset-mocks" not in text


def test_each_attempt_begins_with_empty_mocks(plane: MockPlane, worker: Worker):
    run = started(retries=1)
    worker.claim()
    worker.fail("t")
    let_retries_be_due()
    assert worker.claim() == ["t"]

    assert len(plane.resets) == 4
    assert run.event_ids().count("t-reset-mocks-2") == 1


def test_an_adopted_attempt_keeps_the_state_of_its_mocks(plane: MockPlane, worker: Worker):
    started()
    worker.claim()
    worker.restarted().adopt(worker.jobs["t"])

    assert len(plane.resets) == 2


def test_a_step_waits_for_mocks_that_do_not_answer(plane: MockPlane, worker: Worker):
    run = started()
    plane.fault = "the mocks do not answer"
    assert worker.claim() == ["in/x"], "the other step is not held up"
    assert run.statuses["t"] == "queued"
    assert worker.claim() == [], "there is a pause before the next try"
    (event,) = [event for event in run.events() if event["id"] == "t-requeued-2"]
    assert event["text"] == "psp could not be reset: the mocks do not answer"
    assert event["reason"] == "mock_not_ready"

    plane.fault = ""
    let_retries_be_due()
    assert worker.claim() == ["t"]
    assert run.step("t").mocks_away_since is None
    worker.end("in/x")
    worker.end("t")
    assert run.status == "Healthy"


def test_after_a_minute_the_step_fails(plane: MockPlane, worker: Worker):
    run = started(retries=0)
    plane.fault = "the mocks do not answer"
    for seconds, status in ((0, "queued"), (58, "queued"), (61, "failed")):
        Step.objects.filter(mocks_away_since__isnull=False).update(
            mocks_away_since=clock.now() - timedelta(seconds=seconds)
        )
        let_retries_be_due()
        worker.claim()
        assert run.statuses["t"] == status

    assert run.reasons == {"t": "mock_not_ready"}
    assert "could not be reset" in run.step("t").detail


@pytest.mark.parametrize("served", [{}, {"psp": {}}, {"psp": {"empty": ""}}])
def test_a_mock_that_serves_nothing_has_no_state(plane: MockPlane, worker: Worker, served):
    booted_run(node("t", resetMocks=list(served)), mocks=served)

    assert worker.claim() == ["t"]
    assert plane.resets == []


def test_steps_of_one_claim_share_the_time_for_their_mocks(
    plane: MockPlane, worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    """All reports of a supervisor wait for its claim."""
    passed = [0.0]

    class Time:
        monotonic = staticmethod(lambda: passed[0])

    def silent() -> None:
        passed[0] += plane.waits[-1]

    monkeypatch.setattr(mock_resets, "time", Time)
    nodes = [node(f"t{nth}", resetMocks=["psp"]) for nth in range(4)]
    run = booted_run(*nodes, node("z"), mocks={"psp": {"pay": "rest"}})
    plane.fault, plane.before_answer = "the mocks do not answer", silent

    assert worker.claim() == ["z"]
    assert len(plane.asked) == 4, "each is asked for: one may be served while another is not"
    assert sum(plane.waits) <= 5
    assert [run.statuses[f"t{nth}"] for nth in range(4)] == ["queued"] * 4


def test_a_reset_that_fails_loses_no_claim(
    plane: MockPlane, worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    def busy(*_: object, **__: object) -> None:
        raise DatastoreUnavailable("the datastore is busy")

    run = started()
    monkeypatch.setattr(mocks, "reset_space", busy)

    assert worker.claim() == ["in/x"]
    assert run.statuses == {"in/x": "running", "t": "queued"}
    texts = {event["id"]: event["text"] for event in run.events()}
    assert texts["t-requeued-2"] == "psp could not be reset: the datastore is busy"
