"""Decisions about a run, as values: no store is needed to ask what follows from a state."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.executions.domain.kept_environments import KeepWish
from apps.executions.domain.plan import PlanNode, RunPlan, Skip
from apps.executions.domain.progression import (
    STOPPED_WITHIN,
    TEARDOWN_WITHIN,
    CancelWords,
    RunState,
    decide_admission,
    decide_cancellation,
    decide_failure,
    decide_forced_end,
    decide_progress,
)
from apps.executions.domain.states import (
    STATES_OF,
    CancelReason,
    ExecutionStatus,
    IllegalTransition,
    RunReason,
    StepReason,
)
from apps.executions.domain.transitions import StepChange

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SERVICE = PlanNode(id="db", kind="service", may_run_again=True)
TEST = PlanNode(id="test", kind="test", needs=(0,), level=1)
LOG = PlanNode(id="done", kind="log", needs=(0,), level=1, may_run_again=True)


def state(codes: str, *nodes: PlanNode, **facts: Any) -> RunState:
    """A booted run whose steps have these status codes."""
    return replace(
        RunState(
            plan=RunPlan(nodes or (SERVICE, TEST)),
            statuses=[STATES_OF[code][0] for code in codes],
            jobs=[STATES_OF[code][1] for code in codes],
            codes=codes,
            status=ExecutionStatus.BOOTING,
            verdict="",
            reason="",
            failing=False,
            is_over=False,
            keep=KeepWish(),
            now=NOW,
            cancel_words=CancelWords(),
        ),
        **facts,
    )


def test_a_step_starts_once_its_service_is_healthy() -> None:
    decision = decide_progress(state("Hp"), max_parallel=3)

    assert (decision.start, decision.goes_on, decision.ends) == ((1,), False, False)


def test_a_log_node_ends_at_once_so_that_more_is_decided() -> None:
    assert decide_progress(state("Hp", SERVICE, LOG), max_parallel=3).goes_on


def test_a_mock_with_nothing_to_serve_ends_at_once() -> None:
    mock = PlanNode(id="mock", kind="mock")

    assert decide_progress(state("p", mock, empty_mocks={0}), max_parallel=3).goes_on
    assert not decide_progress(state("p", mock), max_parallel=3).goes_on


def test_a_verdict_stops_the_services_that_are_left() -> None:
    decision = decide_progress(state("Hh", keep=KeepWish(60_000)), max_parallel=3)

    assert decision.verdict == {
        "verdict": ExecutionStatus.HEALTHY, "deadline": NOW + TEARDOWN_WITHIN,
    }  # fmt: skip
    assert (decision.stop, decision.reads, decision.keeps) == ((0,), (0,), True)
    assert decision.stop_reason is CancelReason.TEARDOWN
    assert not decision.goes_on


def test_a_failure_is_told_before_what_it_skips() -> None:
    decision = decide_progress(state("fp"), max_parallel=3)

    assert decision.values == {"failing": True}
    assert decision.stores_sentence
    assert decision.skip == {1: Skip(StepReason.DEPENDENCY_FAILED, 0)}
    assert decision.reads == (0,)
    assert decision.verdict == {
        "verdict": ExecutionStatus.FAILED, "reason": RunReason.STEP_FAILED,
    }  # fmt: skip
    assert decision.goes_on


@pytest.mark.parametrize(
    ("verdict", "reason", "expected"),
    [
        (ExecutionStatus.HEALTHY, "", ("healthy", "2 healthy", "info", "")),
        (ExecutionStatus.FAILED, RunReason.STEP_FAILED, ("failed", "", "error", "step_failed")),
        (ExecutionStatus.FAILED, RunReason.RUN_TIMEOUT, ("failed", "", "error", "run_timeout")),
    ],
)
def test_a_run_ends_when_its_last_job_has(verdict: str, reason: str, expected: Any) -> None:
    drained = state("hh", verdict=verdict, reason=reason)

    ended = decide_progress(drained, max_parallel=3)

    assert (ended.ends, ended.event) == (True, expected)
    assert ended.values["finished_at"] == NOW
    assert not decide_progress(state("Hh", verdict=verdict), max_parallel=3).ends
    assert not decide_progress(replace(drained, is_over=True), max_parallel=3).ends


def test_what_ran_against_a_replaced_service_is_reset() -> None:
    again = replace(TEST, may_run_again=True)

    decision = decide_progress(state("Qr", SERVICE, again, replaced={0: "lost"}), max_parallel=3)

    assert decision.reset.indexes == (1,)
    assert decision.reset.text == "db restarted: this step ran against the previous instance"
    assert (decision.reads, decision.goes_on) == ((0, 1), True)


@pytest.mark.parametrize(
    ("failing", "reason"),
    [(False, RunReason.DEPENDENCY_REPLACED), (True, RunReason.STEP_FAILED)],
)
def test_a_run_fails_if_what_ran_against_the_service_must_not_run_twice(
    failing: bool, reason: RunReason
) -> None:
    failure = StepChange(1, {})
    stuck = state("Qr", replaced={0: "lost"}, failures={1: failure}, failing=failing)

    decision = decide_progress(stuck, max_parallel=3)

    assert (decision.fail, decision.start, decision.goes_on) == ((failure,), (), True)
    assert decision.then is not None
    assert decision.then.values["reason"] is reason
    assert decision.then.skip == {0: Skip(StepReason.RUN_FAILED)}
    assert decision.then.stop == ()  # the job of the test ends with its failure


def test_an_admission_starts_the_time_of_a_run() -> None:
    queued = state("pp", status=ExecutionStatus.QUEUED)

    decision = decide_admission(queued, max_duration=timedelta(hours=1))

    assert decision.values == {
        "status": ExecutionStatus.BOOTING, "booted_at": NOW, "deadline": NOW + timedelta(hours=1),
    }  # fmt: skip
    assert decision.event is not None
    assert decision.event.text == "admitted, 2 steps"
    assert decision.goes_on


def test_a_queued_run_is_canceled_at_once_and_a_booted_one_once_its_jobs_stop() -> None:
    words = CancelWords("Ada", "wrong branch")

    queued = decide_cancellation(state("pp", status=ExecutionStatus.QUEUED), words)
    booted = decide_cancellation(state("rp"), words)

    assert (queued.event, queued.cancel) == (None, (0, 1))
    assert queued.then is not None
    assert queued.then.event is not None
    assert queued.then.event.text == "canceled by Ada before it started: wrong branch"
    assert booted.event is not None
    assert booted.event.text == "cancel requested by Ada: wrong branch"
    assert (booted.cancel, booted.stop, booted.then) == ((1,), (0,), None)
    with pytest.raises(IllegalTransition):
        decide_cancellation(state("hh", status=ExecutionStatus.HEALTHY), words)


def test_a_canceled_run_ends_with_who_canceled_it() -> None:
    canceling = state("cc", status=ExecutionStatus.CANCELING, cancel_words=CancelWords("Ada"))

    decision = decide_progress(canceling, max_parallel=3)

    assert decision.values["status"] is ExecutionStatus.CANCELED
    assert decision.event == ("canceled", "canceled by Ada", "warn", "")


def test_a_run_that_took_too_long_stops_its_jobs_as_late() -> None:
    kept = KeepWish(60_000, only_failed=True)

    decision = decide_failure(state("rp", keep=kept), RunReason.RUN_TIMEOUT, "too long")

    assert decision.values["reason_detail"] == "too long"
    assert decision.values["deadline"] == NOW + STOPPED_WITHIN
    assert decision.skip == {1: Skip(StepReason.RUN_FAILED)}
    assert (decision.stop, decision.stop_reason) == ((0,), CancelReason.TIMEOUT)
    assert decision.keeps


def test_a_forced_end_ends_every_open_job() -> None:
    decision = decide_forced_end(state("Hr"))

    assert (decision.end_stopped, decision.reads, decision.steps) == ((0, 1), (0, 1), (0, 1))
