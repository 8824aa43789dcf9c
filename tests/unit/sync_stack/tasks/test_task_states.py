"""States, errors and delays of sync tasks."""

from __future__ import annotations

import itertools

import pytest

from sync_stack.core.tasks import (
    MESSAGES,
    RETRYABLE,
    TERMINAL,
    TRANSITIONS,
    Change,
    IllegalTaskTransition,
    State,
    TaskError,
    Tries,
    advance,
    backoff_s,
    judge,
    most_significant,
)


@pytest.mark.parametrize(("state", "change"), list(itertools.product(State, Change)))
def test_every_pair_is_in_the_table_or_refused(state: State, change: Change):
    if (state, change) in TRANSITIONS:
        assert advance(state, change) is TRANSITIONS[state, change]
    else:
        with pytest.raises(IllegalTaskTransition, match=state):
            advance(state, change)


def test_a_terminal_state_never_changes():
    """Sync invariant 35."""
    assert not [pair for pair in TRANSITIONS if pair[0] in TERMINAL]


def test_a_failed_or_dead_task_is_never_claimed_again():
    """Sync invariant 36."""
    assert {state for state, change in TRANSITIONS if change is Change.CLAIMED} == {
        State.PENDING,
        State.RETRYING,
    }


def test_a_permanent_error_fails_at_once():
    verdict = judge(TaskError("parse_error", "x"), Tries(attempt=1, max_attempts=6), jitter=1)
    assert verdict.change is Change.FAILED_FOR_GOOD


def test_a_retryable_error_retries_until_the_attempts_are_used_up():
    error = TaskError("sink_unavailable", "x")
    changes = [
        judge(error, Tries(attempt=attempt, max_attempts=3), jitter=1).change
        for attempt in (1, 2, 3)
    ]
    assert changes == [Change.FAILED_FOR_NOW, Change.FAILED_FOR_NOW, Change.EXHAUSTED]


@pytest.mark.parametrize("code", ["destination_busy", "ref_lagging"])
def test_waiting_costs_no_attempt(code: str):
    verdict = judge(TaskError(code, "x"), Tries(attempt=6, max_attempts=6), jitter=1)
    assert (verdict.change, verdict.max_attempts, verdict.delay_s) == (Change.WAITS, 7, 5.0)


def test_a_worker_that_shuts_down_gives_the_task_back_uncounted():
    error = TaskError("worker_lost", "shutting down", uncounted=True)
    verdict = judge(error, Tries(attempt=6, max_attempts=6), jitter=1)
    assert (verdict.change, verdict.delay_s) == (Change.WAITS, 0.0)


def test_delays_double_up_to_a_minute_and_are_shortened_by_the_jitter():
    delays = [backoff_s(Tries(attempt=n, max_attempts=9), jitter=1) for n in range(1, 8)]
    assert delays == [2, 4, 8, 16, 32, 60, 60]
    assert backoff_s(Tries(attempt=1, max_attempts=9), jitter=0.5) == 1


def test_what_the_other_side_asks_for_raises_the_delay_up_to_ten_minutes():
    tries = Tries(attempt=1, max_attempts=9)
    assert backoff_s(tries, jitter=1, retry_after_s=90) == 90
    assert backoff_s(tries, jitter=1, retry_after_s=9000) == 600
    assert backoff_s(tries, jitter=1, retry_after_s=0.1) == 2


def test_an_unknown_code_is_a_mistake_of_the_program():
    with pytest.raises(ValueError, match="nonsense"):
        TaskError("nonsense", "x")


def test_anything_unforeseen_is_retried():
    assert RETRYABLE["internal_error"]


def test_the_most_significant_word_speaks_for_all_targets():
    assert most_significant(["no_changes", "completed"]) == "completed"
    assert most_significant(["ref_not_mapped", "no_changes"]) == "no_changes"
    assert most_significant([]) == "repository_not_matched"
    assert len(set(MESSAGES)) == len(MESSAGES)
