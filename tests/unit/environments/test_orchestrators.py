"""Whether an environment's supervisor lives, and what is a zombie (reference: control-plane 17)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.environments.domain.orchestrators import (
    DeadTime,
    OrchestratorRecord,
    OrchestratorState,
    advance_dead_times,
    death_reason,
    is_in_teardown,
    is_zombie,
    orchestrator_state,
)
from apps.executions.api import RunFacts

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
RUN = "run-000000000001"
ALIVE, STALE, DEAD, UNKNOWN = (
    OrchestratorState.ALIVE,
    OrchestratorState.STALE,
    OrchestratorState.DEAD,
    OrchestratorState.UNKNOWN,
)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def run(**facts: Any) -> RunFacts:
    known: dict[str, Any] = {
        "run_id": RUN,
        "workspace_id": "w",
        "suite_title": "Shop",
        "profile": "",
        "backend_id": "local",
        "agent_id": "runner:a",
        "status": "Booting",
        "is_over": False,
        "started_at": ago(600),
    }
    return RunFacts(**known | facts)


def over(**facts: Any) -> RunFacts:
    return run(**{"status": "Failed", "is_over": True, "finished_at": ago(300)} | facts)


def record(silent_s: float, *, is_gone: bool = False) -> OrchestratorRecord:
    return OrchestratorRecord(
        agent_id="runner:a", pid=42, last_heartbeat_at=ago(silent_s), is_gone=is_gone
    )


@pytest.mark.parametrize(
    ("run_id", "facts", "orchestrator", "expected"),
    [
        ("", None, None, UNKNOWN),
        ("", run(), record(1), UNKNOWN),
        (RUN, over(keep_alive_until=ago(-60)), None, ALIVE),
        (RUN, over(keep_alive_until=ago(60)), record(1), DEAD),
        (RUN, run(keep_alive_until=ago(-60)), record(500, is_gone=True), ALIVE),
        (RUN, over(), record(1), DEAD),
        (RUN, None, record(1), DEAD),
        (RUN, run(), None, STALE),
        (RUN, run(), record(30), ALIVE),
        (RUN, run(), record(30, is_gone=True), ALIVE),
        (RUN, run(), record(31), STALE),
        (RUN, run(), record(31, is_gone=True), DEAD),
        (RUN, run(), record(120), STALE),
        (RUN, run(), record(121), DEAD),
    ],
)
def test_the_first_rule_that_matches_tells_the_state(
    run_id: str,
    facts: RunFacts | None,
    orchestrator: OrchestratorRecord | None,
    expected: OrchestratorState,
) -> None:
    assert orchestrator_state(run_id, facts, orchestrator, now=NOW) is expected


@pytest.mark.parametrize(
    ("is_running", "state", "seen_s", "in_teardown", "expected"),
    [
        (True, DEAD, 30, False, True),
        (True, DEAD, 29, False, False),
        (True, DEAD, None, False, False),
        (True, DEAD, 30, True, False),
        (False, DEAD, 30, False, False),
        (True, STALE, 30, False, False),
        (True, UNKNOWN, 30, False, False),
        (True, ALIVE, 30, False, False),
    ],
)
def test_a_zombie_runs_for_nobody_on_two_looks_far_apart(
    is_running: bool,
    state: OrchestratorState,
    seen_s: float | None,
    in_teardown: bool,
    expected: bool,
) -> None:
    dead = None if seen_s is None else DeadTime(since=ago(seen_s), seen_at=NOW)

    found = is_zombie(state, dead, is_running=is_running, in_teardown=in_teardown)

    assert found is expected


def test_a_run_is_in_teardown_for_a_minute_after_its_end() -> None:
    assert is_in_teardown(over(finished_at=ago(60)), now=NOW)
    assert not is_in_teardown(over(finished_at=ago(61)), now=NOW)
    assert not is_in_teardown(run(), now=NOW)
    assert not is_in_teardown(None, now=NOW)


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=20))
def test_dead_times_span_the_looks_that_found_a_run_dead_without_a_break(
    looks: list[tuple[int, bool]],
) -> None:
    known: dict[str, DeadTime] = {}
    instant, row = NOW, list[datetime]()

    for pause_s, is_dead in looks:
        instant += timedelta(seconds=pause_s)
        known = advance_dead_times(known, {RUN} if is_dead else set(), looked_at=instant)
        row = [*row, instant] if is_dead else []

        assert known == ({RUN: DeadTime(since=row[0], seen_at=row[-1])} if row else {})


@pytest.mark.parametrize(
    ("facts", "orchestrator", "words"),
    [
        (None, None, "the store has no run with this id"),
        (over(), record(1), "its run ended 5 min ago (Failed)"),
        (run(), record(200), "runner:a has been silent for 3 min 20 s"),
        (run(), record(60, is_gone=True), "process 42 of runner:a is gone, silent for 60 s"),
    ],
)
def test_the_reason_is_told_in_words(
    facts: RunFacts | None, orchestrator: OrchestratorRecord | None, words: str
) -> None:
    assert death_reason(facts, orchestrator, now=NOW) == words
