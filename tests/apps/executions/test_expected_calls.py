"""`expect_calls`: the calls of mocks decide with the exit code, and are a test report."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from apps.executions import api
from apps.executions.selectors.junit_report import junit_document
from apps.mocks.api import CallOutcome, JournalEntry
from kernel import clock
from tests.apps.executions.mocks import MockPlane
from tests.apps.executions.runs import Run, Worker, booted_run, let_retries_be_due, node

SERVED = {"psp": {"pay": "rest"}, "in/psp": {"pay": "rest"}}
EXPECTED = [
    {"mocks": ["psp"], "operation": "pay", "atLeast": 1, "atMost": 1},
    {"mocks": ["in/psp"], "operation": "refund", "atLeast": 0, "atMost": 0},
]


def started(**facts: Any) -> Run:
    return booted_run(
        node("in/x", sourceSuiteId="inner", continueOnFailure=True),
        node("t", **{"expectCalls": EXPECTED, **facts}),
        mocks=SERVED,
    )


def call(operation: str = "pay", **facts: Any) -> JournalEntry:
    entry: dict[str, Any] = {
        "id": "1", "time": clock.now(), "method": "POST", "path": "/pay", "surface_id": "pay",
        "operation_id": operation, "outcome": CallOutcome.EXAMPLE, "status": 200,
        "duration_ms": 1.0,
    }  # fmt: skip
    return JournalEntry(**entry | facts)


def summary_of(run: Run) -> dict[str, Any]:
    (artifact,) = api.detail(run.principal, run.id)["artifacts"]
    assert (artifact["path"], artifact["format"], artifact["stepId"]) == (
        "expect_calls.xml", "junit", "t",
    )  # fmt: skip
    summary: Mapping[str, Any] = artifact["testSummary"]
    return {key: summary[key] for key in ("total", "passed", "failures", "errors")}


def test_a_step_whose_expectations_are_met_is_healthy(plane: MockPlane, worker: Worker):
    run = started()
    worker.claim()
    plane.calls[f"demo@{run.id}"] = [call()]
    worker.end("t")

    assert run.statuses["t"] == "healthy"
    assert summary_of(run) == {"total": 2, "passed": 2, "failures": 0, "errors": 0}
    texts = {event["id"]: event["text"] for event in run.events()}
    assert texts["t-artifacts"] == "kept expect_calls.xml"
    document = junit_document(run.principal, run.id).decode()
    assert 'testcase name="psp: pay exactly once" classname="expect_calls"' in document
    assert 'name="in/psp: refund exactly 0 times"' in document


def test_a_missed_expectation_fails_the_step_with_its_text(plane: MockPlane, worker: Worker):
    """Invariant 1."""
    run = started()
    worker.claim()
    plane.calls[f"demo@{run.id}"] = [call("list")]
    plane.calls[f"inner@{run.id}+in"] = [call("refund")]
    worker.end("t")

    assert run.reasons["t"] == "test_failures"
    detail = run.step("t").detail
    assert detail.startswith("expected psp: pay exactly once, seen 0; nearest call: POST /pay")
    assert 'operation is "list", not "pay"' in detail
    assert "expected in/psp: refund exactly 0 times, seen 1" in detail
    assert summary_of(run) == {"total": 2, "passed": 0, "failures": 2, "errors": 0}
    first, _ = api.failed_cases(run.principal, run.id)
    assert (first.step_id, first.classname) == ("t", "expect_calls")
    assert first.message in detail


@pytest.mark.parametrize(
    "other",
    [
        call(time=clock.now() - timedelta(hours=1)),
        call(surface_id="other"),
    ],
    ids=["before the attempt", "of another mock of the suite"],
)
def test_calls_of_others_do_not_count(plane: MockPlane, worker: Worker, other: JournalEntry):
    run = started()
    worker.claim()
    plane.calls[f"demo@{run.id}"] = [other]
    worker.end("t")

    assert "seen 0; psp got no call" in run.step("t").detail


def test_each_attempt_is_judged_by_its_own_calls(plane: MockPlane, worker: Worker):
    run = started(retries=1)
    worker.claim()
    worker.end("t")
    assert run.statuses["t"] == "queued", "a missed call is retried like other test failures"
    let_retries_be_due()
    worker.claim()
    plane.calls[f"demo@{run.id}"] = [call()]
    worker.end("t")

    assert run.statuses["t"] == "healthy"
    assert len(api.detail(run.principal, run.id)["artifacts"]) == 2
    assert api.failed_cases(run.principal, run.id) == []


def test_a_step_that_failed_keeps_its_reason_and_has_the_report(plane: MockPlane, worker: Worker):
    run = started()
    worker.claim()
    worker.fail("t")

    assert run.reasons["t"] == "exit_nonzero"
    assert run.step("t").detail == "exit code 1"
    assert summary_of(run) == {"total": 2, "passed": 1, "failures": 1, "errors": 0}


def test_calls_that_arrive_late_are_waited_for(plane: MockPlane, worker: Worker):
    """Other processes send them in batches."""
    run = started(expectCalls=[{"mocks": ["psp"], "operation": "pay", "atLeast": 1}])
    worker.claim()
    looks: list[int] = []

    def arrive() -> None:
        looks.append(1)
        if len(looks) > 2:
            plane.calls[f"demo@{run.id}"] = [call()]

    plane.delay_s, plane.before_read = 5.0, arrive
    worker.end("t")

    assert run.statuses["t"] == "healthy"


def test_a_process_that_cannot_see_the_calls_says_what_is_needed(plane: MockPlane, worker: Worker):
    run = started()
    worker.claim()
    plane.delay_s = None
    worker.end("t")

    assert run.reasons["t"] == "test_failures"
    assert "they need Redis" in run.step("t").detail
    assert summary_of(run) == {"total": 1, "passed": 0, "failures": 0, "errors": 1}


def test_a_repeated_completion_stores_nothing_again(plane: MockPlane, worker: Worker):
    run = started()
    worker.claim()
    plane.calls[f"demo@{run.id}"] = [call()]
    worker.end("t")
    worker.end("t")

    assert summary_of(run)["total"] == 2


def test_a_step_without_expectations_reads_no_journal(plane: MockPlane, worker: Worker):
    def never() -> None:
        raise AssertionError

    plane.before_read = never
    run = booted_run(node("t"), mocks={"psp": {"pay": "rest"}})
    worker.claim()
    worker.end("t")

    assert run.status == "Healthy"


def test_calls_that_arrive_late_break_an_expectation_of_few(plane: MockPlane, worker: Worker):
    """Invariant 1: what no call was seen of yet may still come from another process."""
    run = started()
    worker.claim()
    plane.calls[f"demo@{run.id}"] = [call()]
    looks: list[int] = []

    def arrive() -> None:
        looks.append(1)
        if len(looks) > 2:
            plane.calls[f"inner@{run.id}+in"] = [call("refund")]

    plane.delay_s, plane.before_read = 0.3, arrive
    worker.end("t")

    assert run.reasons["t"] == "test_failures"
    assert run.step("t").detail == (
        "expected in/psp: refund exactly 0 times, seen 1; seen: POST /pay → 200 (example)"
    )


@pytest.mark.parametrize("calls", [[], [call()]], ids=["too few", "as many as may be"])
def test_what_missing_calls_would_decide_is_an_error(plane: MockPlane, worker: Worker, calls):
    """Invariant 1."""
    run = started()
    worker.claim()
    plane.calls[f"demo@{run.id}"] = [replace(each, time=clock.now()) for each in calls]
    plane.gap = "the server started again"
    worker.end("t")

    assert run.reasons["t"] == "test_failures"
    assert "psp: pay exactly once cannot be decided: the server started" in run.step("t").detail
    assert summary_of(run) == {"total": 2, "passed": 0, "failures": 0, "errors": 2}


def test_what_missing_calls_cannot_change_is_decided(plane: MockPlane, worker: Worker):
    enough = {"mocks": ["psp"], "operation": "pay", "atLeast": 1}
    never = {"mocks": ["psp"], "operation": "list", "atLeast": 0, "atMost": 0}
    run = started(expectCalls=[enough, never])
    worker.claim()
    plane.calls[f"demo@{run.id}"] = [call(), call("list")]
    plane.gap = "the server started again"
    worker.end("t")

    assert summary_of(run) == {"total": 2, "passed": 1, "failures": 1, "errors": 0}


def test_calls_beyond_those_that_are_kept_are_missed(plane: MockPlane, worker: Worker):
    run = started()
    worker.claim()
    plane.calls[f"demo@{run.id}"] = [call("list", id=str(nth)) for nth in range(1_000)]
    worker.end("t")

    assert "cannot be decided: only the newest 1,000 calls of a suite" in run.step("t").detail
