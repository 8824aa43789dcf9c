"""Claims that wait take turns: a nudge costs one look, and no step is left to a lost wake-up."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import pytest

from apps.executions.api import work_nudge
from apps.streams.api import wake
from apps.workers.rest.claim_turns import ClaimTurns


@pytest.fixture
def woken() -> list[str]:
    return []


def test_a_nudge_wakes_who_waits_longest_of_each_kind(woken):
    turns = ClaimTurns()
    with ExitStack() as stack:
        for name in ("a1", "a2", "b1"):
            stack.enter_context(turns.waiting(name[0], partial(woken.append, name)))

        wake(work_nudge(""))
        first = list(woken)
        wake(work_nudge(""))

    assert first == ["a1", "b1"]
    assert woken[:3] == ["a1", "b1", "a2"]


def test_who_has_found_a_step_wakes_two_more(woken):
    turns = ClaimTurns()
    with ExitStack() as stack:
        with turns.waiting("a", partial(woken.append, "1")):
            for name in "234":
                stack.enter_context(turns.waiting("a", partial(woken.append, name)))
            wake(work_nudge(""))

        assert woken == ["1", "2", "3"]


def test_who_has_found_nothing_waits_behind_the_others_and_wakes_nobody(woken):
    turns = ClaimTurns()
    with (
        turns.waiting("a", partial(woken.append, "1")) as turn,
        turns.waiting("a", partial(woken.append, "2")),
    ):
        wake(work_nudge(""))
        turns.take_part(turn)
        assert woken == ["1"]
        wake(work_nudge(""))

        assert woken == ["1", "2"]


def test_who_leaves_before_its_turn_wakes_nobody(woken):
    turns = ClaimTurns()
    with turns.waiting("a", partial(woken.append, "1")):
        with turns.waiting("a", partial(woken.append, "2")):
            pass

        assert woken == []
