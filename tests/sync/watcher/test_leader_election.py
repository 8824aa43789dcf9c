"""One watcher polls; another one takes over when its beat stands still, whatever the clocks say."""

from __future__ import annotations

from sync_stack.orchestrator.models import Leader
from sync_stack.watcher.leader_election import LeaderElection
from tests.support.threads import at_once


class Seconds:
    def __init__(self, start: float = 0.0) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now


def test_the_first_one_leads_and_the_second_one_waits():
    first, second = LeaderElection("a", Seconds()), LeaderElection("b", Seconds(10_000))
    assert first.step()
    assert not second.step()
    assert Leader.objects.get().holder == "a"


def test_of_many_that_begin_together_one_leads():
    rivals = [LeaderElection(f"w{number}", Seconds()) for number in range(8)]
    assert sum(at_once([rival.step for rival in rivals])) == 1


def test_a_leader_that_beats_keeps_the_lead():
    mine, theirs = Seconds(), Seconds()
    first, second = LeaderElection("a", mine), LeaderElection("b", theirs)
    for _ in range(20):
        assert first.step()
        assert not second.step()
        mine.now += 5
        theirs.now += 5


def test_a_beat_that_stands_still_for_15_s_is_taken_over_and_the_old_leader_stops():
    mine, theirs = Seconds(), Seconds()
    first, second = LeaderElection("a", mine), LeaderElection("b", theirs)
    first.step()
    second.step()
    theirs.now = 14.9
    assert not second.step()
    theirs.now = 15.1
    assert second.step()

    mine.now = 10.1
    assert not first.is_mine  # before the other one could begin
    assert not first.step()
    assert second.is_mine
    assert Leader.objects.get().holder == "b"


def test_who_was_overtaken_finds_out_at_its_next_beat():
    theirs = Seconds()
    first, second = LeaderElection("a", Seconds()), LeaderElection("b", theirs)
    first.step()
    second.step()
    theirs.now = 16
    assert second.step()
    assert not first.step()
    assert not first.is_mine


def test_a_lead_that_was_given_back_is_taken_at_once():
    first, second = LeaderElection("a", Seconds()), LeaderElection("b", Seconds())
    first.step()
    assert not second.step()
    first.release()
    assert not first.is_mine
    assert second.step()
