from __future__ import annotations

from apps.executions.domain.steps import StepEdges, waiting_on

NODE = StepEdges(depends_on=("db", "seed"), on_failure=("seed", "check"), continue_on_failure=False)


def test_a_pending_step_waits_for_what_is_not_over():
    statuses = {"db": "healthy", "seed": "running", "check": "pending"}

    assert waiting_on(NODE, "pending", statuses) == ["seed", "check"]


def test_a_step_that_is_no_longer_pending_waits_for_nothing():
    assert waiting_on(NODE, "queued", {}) == []
    assert waiting_on(NODE, "skipped", {}) == []
