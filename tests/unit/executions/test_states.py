"""The three tables, walked over every state and every event."""

from __future__ import annotations

from itertools import product

import pytest

from apps.executions.domain.states import (
    EXECUTION_TRANSITIONS,
    FINAL_EXECUTION,
    JOB_TRANSITIONS,
    STEP_TRANSITIONS,
    ExecutionEvent,
    ExecutionStatus,
    IllegalTransition,
    JobEvent,
    JobState,
    StepEvent,
    StepStatus,
    advance_execution,
    advance_job,
    advance_step,
)


@pytest.mark.parametrize(("status", "event"), list(product(ExecutionStatus, ExecutionEvent)))
def test_an_execution_moves_by_its_table_only(status, event):
    if (status, event) in EXECUTION_TRANSITIONS:
        assert advance_execution(status, event) is EXECUTION_TRANSITIONS[status, event]
    else:
        with pytest.raises(IllegalTransition):
            advance_execution(status, event)


@pytest.mark.parametrize(("status", "event"), list(product(StepStatus, StepEvent)))
def test_a_step_moves_by_its_table_only(status, event):
    if (status, event) in STEP_TRANSITIONS:
        assert advance_step(status, event) is STEP_TRANSITIONS[status, event]
    else:
        with pytest.raises(IllegalTransition):
            advance_step(status, event)


@pytest.mark.parametrize(("state", "event"), list(product(JobState, JobEvent)))
def test_a_job_moves_by_its_table_only(state, event):
    if (state, event) in JOB_TRANSITIONS:
        assert advance_job(state, event) is JOB_TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransition):
            advance_job(state, event)


def test_a_final_status_never_changes():
    """Invariant 4: a terminal status that changes."""
    assert not [status for status, _ in EXECUTION_TRANSITIONS if status in FINAL_EXECUTION]


def test_canceling_ends_canceled_and_nothing_else():
    ends = {
        to
        for (status, _), to in EXECUTION_TRANSITIONS.items()
        if status is ExecutionStatus.CANCELING
    }
    assert ends == {ExecutionStatus.CANCELED}


def test_failed_and_canceled_steps_stay_so():
    final = {StepStatus.FAILED, StepStatus.CANCELED}
    assert not [status for status, _ in STEP_TRANSITIONS if status in final]


def test_what_was_skipped_is_decided_again_after_a_reset_only():
    ways = [event for status, event in STEP_TRANSITIONS if status is StepStatus.SKIPPED]
    assert ways == [StepEvent.RESET]
