"""Heal, wait, verify: over real gRPC, by a real heal unless a test says otherwise."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import grpc
import pytest

from sync_stack.core.sink import SinkError
from sync_stack.orchestrator.models import Drift, Task
from sync_stack.orchestrator.selectors import drift
from sync_stack.orchestrator.services import drift_records
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from tests.sync.watcher.watching import Loop, Watching

DEAD = (pb.TASK_STATE_DEAD, "sink_unavailable")
IDLE = (pb.TASK_STATE_SUCCEEDED, "completed")  # says so, and has changed nothing


def test_drift_is_healed_verified_and_recorded(watching: Watching):
    watching.by_hand("a")
    watching.forget("b")
    watching.poll()

    assert watching.values() == {"a": "1", "b": "2"}
    (row,) = watching.episodes
    assert (row.state, row.resolved_by) == ("healed", "heal")
    assert (row.heal["attempts"], row.heal["last_outcome"]) == (1, "healed")
    assert watching.unit.status == "in_sync"
    (call,) = watching.orchestrator.calls
    assert (call.rule_id, call.repo, call.env) == ("shop", "acme/shop", "production")
    assert (call.delivery_id, call.commit) == (row.id, watching.unit.commit)
    assert (call.destination_id, call.generation) == (watching.unit.destination_id, 1)
    assert len(call.idempotency_key) == 64
    assert (watching.count("heal"), watching.count("heal_verified")) == (1, 1)


def test_another_type_of_thing_in_the_place_of_a_key_is_healed(watching: Watching):
    watching.put_other_type("a")
    watching.poll()

    assert watching.values() == {"a": "1", "b": "2"}
    assert (watching.states, watching.unit.status) == (["healed"], "in_sync")


def test_a_heal_changes_nothing_outside_its_unit(watching: Watching):
    """Sync invariant 41."""
    world = watching.world
    world.finish(world.commit_and_push({"app.yaml": "c: 1\n"}, branch="develop"))
    watching.by_hand("theirs", "kept")
    staging = world.values("staging-shop")
    watching.by_hand("a")
    watching.poll()
    assert watching.values() == {"a": "1", "b": "2", "theirs": "kept"}
    assert world.values("staging-shop") == staging


def test_a_heal_never_undoes_a_newer_sync(watching: Watching):
    """Sync invariant 41."""
    world = watching.world

    def sync_first() -> None:
        world.finish(world.commit_and_push({"app.yaml": "a: 7\nb: 2\n"}))

    watching.orchestrator.before_heal = sync_first
    watching.by_hand("b", "9")
    watching.poll()
    assert watching.values() == {"a": "7", "b": "2"}
    assert watching.states == ["superseded"]
    watching.poll()
    assert watching.unit.status == "in_sync"


@pytest.mark.parametrize(
    ("failing", "ends", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, None, "call_error"),
        (grpc.StatusCode.FAILED_PRECONDITION, None, "call_error"),
        (None, DEAD, "task_failed"),
        (None, IDLE, "still_drifted"),
        (None, (pb.TASK_STATE_PENDING, "accepted"), "task_timeout"),
    ],
)
def test_a_heal_that_fails_is_counted_by_its_reason_and_hides_no_drift(
    watching: Watching, failing, ends, reason
):
    """Sync invariant 39."""
    watching.orchestrator.failing, watching.orchestrator.ends = failing, ends
    watching.by_hand()
    watching.poll()
    assert watching.count("heal_failed", reason=reason) == 1
    assert (watching.states, watching.episodes[0].heal["last_outcome"]) == (["open"], reason)
    watching.poll(after_s=1)
    assert watching.count("drift") == 1, "one episode, however often it is seen"
    assert watching.values()["a"] == "9"


def test_after_five_failures_the_episode_is_unhealed_said_once_and_tried_on(
    watching: Watching, caplog
):
    watching.orchestrator.ends = DEAD
    watching.by_hand()
    for _ in range(7):
        watching.poll(after_s=300)
    assert watching.states == ["unhealed"]
    assert len(watching.orchestrator.calls) == 7
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.event for record in errors] == ["drift_unhealed"]

    watching.orchestrator.ends = None
    watching.poll(after_s=300)
    assert watching.states == ["healed"]


def test_an_external_writer_at_every_poll_causes_no_more_heals_than_the_pauses_allow(
    watching: Watching,
):
    """Sync invariant 42."""
    for _ in range(60):  # ten minutes
        watching.by_hand()
        watching.poll(after_s=10)

    assert watching.count("drift") == 5, "episodes: the last one flaps"
    # 0, 10, 20, 40 s and so on until the fifth episode flaps: then one in ten minutes
    assert len(watching.orchestrator.calls) <= 7
    assert watching.unit.status == "flapping"


def test_a_flapping_unit_calms_down_after_ten_clean_polls(watching: Watching, caplog):
    for _ in range(5):
        watching.by_hand()
        watching.poll(after_s=120)
    assert watching.checker.heal_states.of(watching.unit.id).flapping
    flapping = [each for each in caplog.records if getattr(each, "event", "") == "flapping"]
    assert len(flapping) == 1
    watching.time += timedelta(seconds=600)
    for _ in range(11):
        watching.poll()
    assert not watching.checker.heal_states.of(watching.unit.id).flapping


def test_a_read_error_resets_no_pause_and_triggers_no_heal(watching: Watching):
    """Sync invariant 43."""
    watching.orchestrator.ends = DEAD
    watching.by_hand()
    for _ in range(3):
        watching.poll(after_s=60)
    before = watching.checker.heal_states.of(watching.unit.id)
    watching.world.sink.partial = True
    for _ in range(5):
        watching.poll(after_s=60)
    assert watching.checker.heal_states.of(watching.unit.id) == before
    assert len(watching.orchestrator.calls) == 3


def test_a_verification_that_cannot_read_says_nothing_until_it_can(watching: Watching):
    """Sync invariant 39."""
    sink, read = watching.world.sink, watching.world.sink.read
    refused: list[Any] = []

    def flaky(*args):
        """After the heal's call: twice nothing, then what it should be."""
        if watching.orchestrator.calls and len(refused) < 2:
            refused.append(args)
            raise SinkError("sink_timeout", "no answer")
        if refused:
            watching.by_hand("a", "1")
        return read(*args)

    sink.read = flaky
    watching.orchestrator.ends = IDLE
    watching.by_hand()
    watching.poll()
    assert len(refused) == 2
    assert watching.states == ["healed"]


def test_two_watchers_never_heal_one_episode_twice(watching: Watching, monkeypatch):
    """Sync invariant 42."""
    with Loop() as loop:
        other = Watching(watching.world, loop, watching.orchestrator)
        watching.by_hand()
        seen = [each.checker.check(watching.unit.id) for each in (watching, other)]
        due = [
            each.checker.record(look) for each, look in zip((watching, other), seen, strict=True)
        ]
        assert len({*due}) == 1
        both_read = drift.episode(due[0])
        assert watching.healer.begin(due[0]) is not None
        version = Drift.objects.get().version
        monkeypatch.setattr(drift, "episode", lambda _drift_id: both_read)
        assert other.healer.begin(due[0]) is None
    assert Drift.objects.get().version == version


def test_a_new_leader_goes_on_waiting_and_does_not_call_again(watching: Watching):
    """Sync invariant 42."""
    watching.orchestrator.ends = IDLE
    watching.by_hand()
    drift_id = watching.checker.record(watching.checker.check(watching.unit.id))
    attempt = watching.healer.begin(drift_id)
    assert attempt is not None
    assert watching.loop.do(watching.healer._request_heal(attempt))
    watching.stop()  # before it has waited

    with Loop() as loop:
        other = Watching(watching.world, loop, watching.orchestrator)
        watching.by_hand("a", "1")  # the task has done its work meanwhile
        loop.do(other.poller.resume_stored())
        loop.do(other.settled())
    assert len(watching.orchestrator.calls) == 1
    assert watching.states == ["healed"]


def test_a_leader_that_died_before_its_call_came_back_calls_with_the_same_key(watching: Watching):
    """Sync invariant 42."""
    watching.by_hand()
    drift_id = watching.checker.record(watching.checker.check(watching.unit.id))
    attempt = watching.healer.begin(drift_id)
    assert attempt is not None
    watching.orchestrator._heal(attempt.request)  # the answer was lost
    watching.stop()

    with Loop() as loop:
        other = Watching(watching.world, loop, watching.orchestrator)
        loop.do(other.poller.resume_stored())
        loop.do(other.settled())
    assert Task.objects.filter(kind="heal").count() == 1
    assert watching.states == ["healed"]


def test_who_no_longer_leads_begins_no_heal_and_writes_nothing_down(watching: Watching):
    watching.by_hand()
    watching.leads = False
    watching.poll()
    assert watching.episodes == []
    assert watching.orchestrator.calls == []


def test_old_episodes_are_forgotten_open_ones_are_not(watching: Watching):
    watching.by_hand()
    watching.poll()
    watching.world.with_rules(self_heal=False)
    watching.by_hand()
    watching.poll()
    assert watching.states == ["healed", "open"]
    drift_records.delete_old_episodes(watching.time + timedelta(days=91))
    assert watching.states == ["open"]
