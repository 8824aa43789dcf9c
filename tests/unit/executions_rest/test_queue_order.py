from __future__ import annotations

from datetime import UTC, datetime, timedelta

from apps.executions.domain.runs import QueuedRun, admission_order

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def waiting(run_id, workspace, minute):
    accepted = NOON + timedelta(minutes=minute)
    return QueuedRun(run_id=run_id, workspace_id=workspace, accepted_at=accepted)


def test_workspaces_take_turns_and_each_keeps_its_order():
    queue = [waiting(f"a{n}", "a", n) for n in range(3)] + [waiting("b0", "b", 9)]

    assert admission_order(queue, last_boot={}) == ["a0", "b0", "a1", "a2"]


def test_the_workspace_that_ran_last_comes_last():
    queue = [waiting("a0", "a", 0), waiting("b0", "b", 1), waiting("c0", "c", 2)]
    last_boot = {"a": NOON, "b": NOON - timedelta(hours=1)}

    assert admission_order(queue, last_boot=last_boot) == ["c0", "b0", "a0"]
