"""Decisions about a run, as values: no store is needed to ask what follows from a state."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from apps.executions.domain.commands import (
    CancelStep,
    ChangeRun,
    EndJob,
    KeepEnvironment,
    ResetStep,
    SkipStep,
    StartStep,
    StopJob,
)
from apps.executions.domain.kept_environments import KeepWish
from apps.executions.domain.plan import PlanNode, RunPlan, Skip
from apps.executions.domain.progression import (
    STOPPED_WITHIN,
    TEARDOWN_WITHIN,
    CancelWords,
    RunDecision,
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

Kind = TypeVar("Kind")
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
            is_kept=False,
            now=NOW,
            cancel_words=CancelWords(),
        ),
        **facts,
    )


def of_kind(decision: RunDecision | None, kind: type[Kind]) -> list[Kind]:
    """The commands of this kind, in their order."""
    assert decision is not None
    return [command for command in decision.commands if isinstance(command, kind)]


def test_a_step_starts_once_its_service_is_healthy() -> None:
    decision = decide_progress(state("Hp"), max_parallel=3)

    assert of_kind(decision, StartStep) == [StartStep(1)]
    assert (decision.goes_on, of_kind(decision, ChangeRun)) == (False, [])


def test_a_log_node_ends_at_once_so_that_more_is_decided() -> None:
    assert decide_progress(state("Hp", SERVICE, LOG), max_parallel=3).goes_on


def test_a_mock_with_nothing_to_serve_ends_at_once() -> None:
    mock = PlanNode(id="mock", kind="mock")

    assert decide_progress(state("p", mock, empty_mocks={0}), max_parallel=3).goes_on
    assert not decide_progress(state("p", mock), max_parallel=3).goes_on


def test_a_verdict_stops_the_services_that_are_left() -> None:
    decision = decide_progress(state("Hh", keep=KeepWish(60_000)), max_parallel=3)

    verdict = {"verdict": ExecutionStatus.HEALTHY, "deadline": NOW + TEARDOWN_WITHIN}
    assert decision.commands[-3:] == [
        ChangeRun(verdict),
        KeepEnvironment(NOW + timedelta(minutes=1)),
        StopJob(0, CancelReason.TEARDOWN),
    ]
    assert (decision.reads, decision.goes_on) == ((0,), False)


def test_a_failure_is_told_before_what_it_skips() -> None:
    decision = decide_progress(state("fp"), max_parallel=3)

    failing, verdict = of_kind(decision, ChangeRun)
    skipped = SkipStep(1, Skip(StepReason.DEPENDENCY_FAILED, 0))
    assert failing == ChangeRun({"failing": True}, stores_sentence=True)
    assert verdict.values == {
        "verdict": ExecutionStatus.FAILED, "reason": RunReason.STEP_FAILED,
    }  # fmt: skip
    order = [decision.commands.index(each) for each in (failing, skipped, verdict)]
    assert order == sorted(order)
    assert (decision.reads, decision.goes_on) == ((0,), True)


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

    first, release, end = of_kind(decide_progress(drained, max_parallel=3), ChangeRun)

    assert (end.ends, end.event) == (True, expected)
    assert first.values["finished_at"] == NOW
    assert release.values == {"bound_agent_id": ""}
    assert not decide_progress(state("Hh", verdict=verdict), max_parallel=3).commands
    assert not decide_progress(replace(drained, is_over=True), max_parallel=3).commands


@pytest.mark.parametrize("codes", ["hp", "hq", "hQ", "hr"])
@pytest.mark.parametrize(
    "facts",
    [
        {"verdict": ExecutionStatus.HEALTHY},
        {"verdict": ExecutionStatus.FAILED, "reason": RunReason.RUN_TIMEOUT},
        {"status": ExecutionStatus.CANCELING},
    ],
)
def test_no_run_ends_while_a_step_waits_or_runs(codes: str, facts: dict[str, str]) -> None:
    """Invariant 3."""
    assert not decide_progress(state(codes, **facts), max_parallel=3).commands


def test_an_environment_is_kept_from_the_end_of_its_run_on() -> None:
    kept = state("hh", verdict=ExecutionStatus.HEALTHY, keep=KeepWish(60_000), is_kept=True)

    _, keeping, _ = of_kind(decide_progress(kept, max_parallel=3), ChangeRun)

    assert keeping.values == {"keep_alive_until": NOW + timedelta(minutes=1)}
    assert keeping.event is not None
    assert keeping.event.text == "the environment is kept for 60 s, until 2026-01-02T00:01:00.000Z"


def test_what_ran_against_a_replaced_service_is_reset() -> None:
    again = replace(TEST, may_run_again=True)

    decision = decide_progress(state("Qr", SERVICE, again, replaced={0: "lost"}), max_parallel=3)

    text = "db restarted: this step ran against the previous instance"
    assert decision.commands == [ResetStep(1, text)]
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

    assert (decision.commands, decision.goes_on) == ([failure], True)
    assert of_kind(decision.then, ChangeRun)[0].values["reason"] is reason
    assert of_kind(decision.then, SkipStep) == [SkipStep(0, Skip(StepReason.RUN_FAILED))]
    # the job of the test ends with its failure
    assert of_kind(decision.then, StopJob) == []


@pytest.mark.parametrize(
    ("pending", "text"), [("pp", "admitted, 2 steps"), ("p", "admitted, 1 step")]
)
def test_an_admission_starts_the_time_of_a_run(pending: str, text: str) -> None:
    queued = state(pending, status=ExecutionStatus.QUEUED)

    decision = decide_admission(queued, max_duration=timedelta(hours=1))

    (admission,) = of_kind(decision, ChangeRun)
    assert admission.values == {
        "status": ExecutionStatus.BOOTING, "booted_at": NOW, "deadline": NOW + timedelta(hours=1),
    }  # fmt: skip
    assert admission.event is not None
    assert admission.event.text == text
    assert decision.goes_on


def test_a_queued_run_is_canceled_at_once_and_a_booted_one_once_its_jobs_stop() -> None:
    words = CancelWords("Ada", "wrong branch")

    queued = decide_cancellation(state("pp", status=ExecutionStatus.QUEUED), words)
    booted = decide_cancellation(state("rp"), words)

    assert of_kind(queued, ChangeRun)[0].event is None
    assert of_kind(queued, CancelStep) == [CancelStep(0), CancelStep(1)]
    *_, end = of_kind(queued.then, ChangeRun)
    assert end.event is not None
    assert end.event.text == "canceled by Ada before it started: wrong branch"
    (change,) = of_kind(booted, ChangeRun)
    assert change.event is not None
    assert change.event.text == "cancel requested by Ada: wrong branch"
    assert booted.commands[1:] == [CancelStep(1), StopJob(0, CancelReason.CANCELED)]
    assert booted.then is None
    with pytest.raises(IllegalTransition):
        decide_cancellation(state("hh", status=ExecutionStatus.HEALTHY), words)


def test_a_canceled_run_ends_with_who_canceled_it() -> None:
    canceling = state("cc", status=ExecutionStatus.CANCELING, cancel_words=CancelWords("Ada"))

    first, _, end = of_kind(decide_progress(canceling, max_parallel=3), ChangeRun)

    assert first.values["status"] is ExecutionStatus.CANCELED
    assert end.event == ("canceled", "canceled by Ada", "warn", "")


def test_a_run_that_took_too_long_stops_its_jobs_as_late() -> None:
    kept = KeepWish(60_000, only_failed=True)

    decision = decide_failure(state("rp", keep=kept), RunReason.RUN_TIMEOUT, "too long")

    failure, *rest = decision.commands
    assert isinstance(failure, ChangeRun)
    assert failure.values["reason_detail"] == "too long"
    assert failure.values["deadline"] == NOW + STOPPED_WITHIN
    assert rest == [
        SkipStep(1, Skip(StepReason.RUN_FAILED)),
        KeepEnvironment(NOW + timedelta(minutes=1)),
        StopJob(0, CancelReason.TIMEOUT),
    ]


def test_a_forced_end_ends_every_open_job() -> None:
    decision = decide_forced_end(state("Hr"))

    assert (decision.commands, decision.reads) == ([EndJob(0), EndJob(1)], (0, 1))
