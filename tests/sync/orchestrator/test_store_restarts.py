"""The store is restarted while a worker works: the task goes on at once, and costs no attempt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from kernel import clock
from sync_stack.orchestrator.services import task_transitions

pytestmark = pytest.mark.store


class StoreAway:
    """Lets the n-th call of a function fail as a store does that restarts, and `times - 1` more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, times: int = 1):
        self.calls, self.left = 0, times
        self._act = getattr(owner, name)
        monkeypatch.setattr(owner, name, self)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise OperationalError("the connection is closed")
        return self._act(*arguments, **options)


def test_an_attempt_that_the_store_failed_is_given_back_at_once(world, monkeypatch):
    """Sync invariant 1. Not after the 25 s after which its worker counts as lost."""
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    away = StoreAway(monkeypatch, task_transitions, "end", times=3)

    world.run(task)

    assert away.calls == 4, "the end of the attempt, and its return until the store took it"
    task = world.again(task)
    assert (task.state, task.error["code"], task.max_attempts) == (
        "RETRYING", "store_unavailable", 7,
    )  # fmt: skip
    assert task.next_attempt_at - clock.now() < timedelta(seconds=1)
    assert world.finish(task).message == "completed"
    assert world.values() == {"a": "1"}


def test_a_task_is_claimed_from_a_store_that_is_just_restarting(world, monkeypatch):
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    StoreAway(monkeypatch, task_transitions, "claim", times=2)

    assert world.finish(task).message == "completed"
