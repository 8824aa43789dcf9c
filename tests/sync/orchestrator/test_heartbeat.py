"""What a worker may do depends on its last beat."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from sync_stack.core.sink import Delete, Destination, Owner, Put, TargetMarker
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.services import task_transitions
from sync_stack.orchestrator.services.execution import attempt
from sync_stack.orchestrator.services.execution.attempt import (
    GuardedSink,
    Heartbeat,
    LostTask,
)
from sync_stack.orchestrator.services.execution.task_runner import run_task

pytestmark = pytest.mark.store


@pytest.fixture
def mine(world) -> Claim:
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    claimed = task_transitions.claim(task.id, task.created_at)
    assert claimed is not None
    return Claim(claimed.id, claimed.attempt)


def test_no_operation_begins_15_seconds_after_the_last_beat(mine):
    """Sync invariant 10: as after SIGSTOP and SIGCONT."""
    now = time.monotonic()
    Heartbeat(mine, begun=now - 14.0).check()
    with pytest.raises(LostTask):
        Heartbeat(mine, begun=now - 15.5).check()


def test_a_worker_that_was_frozen_in_a_beat_counts_from_its_start(mine, monkeypatch):
    """Sync invariant 10: the store took the beat before the freeze, not at its end."""
    now = [1000.0]
    monkeypatch.setattr(attempt, "time", SimpleNamespace(monotonic=lambda: now[0]))
    taken = task_transitions.record_heartbeat

    def frozen(claim: Claim) -> bool:
        recorded = taken(claim)
        now[0] += 60
        return recorded

    monkeypatch.setattr(task_transitions, "record_heartbeat", frozen)
    beat = Heartbeat(mine, begun=now[0])
    beat._beat(now[0])
    with pytest.raises(LostTask):
        beat.check()


PLACE = Destination(kind="fake", name="production-shop", address="fake://memory/production-shop")
MARKER = TargetMarker(rule="shop", repo="acme/shop", env="production", generation=1)
OWNER = Owner(rule="shop", repo="acme/shop", env="production")


@pytest.mark.parametrize(
    "operation",
    [
        lambda sink: sink.read(PLACE, OWNER, ()),
        lambda sink: sink.write(PLACE, [Put(record="a", values={"a": "1"})], MARKER),
        lambda sink: sink.delete(PLACE, [Delete(record="a")], OWNER, 1),
        lambda sink: sink.fence(PLACE, OWNER, 1),
    ],
    ids=["read", "write", "delete", "fence"],
)
def test_after_the_loss_no_operation_reaches_the_sink(world, mine, operation):
    """Sync invariant 10."""
    lost = Heartbeat(mine, begun=time.monotonic() - attempt.TRUST_S - 1)
    with pytest.raises(LostTask):
        operation(GuardedSink(world.sink, lost))
    assert not world.sink.places


def test_a_refused_beat_ends_everything_also_a_restore(mine, monkeypatch):
    """Sync invariant 10."""
    monkeypatch.setattr(attempt, "HEARTBEAT_S", 0.01)
    with Heartbeat(mine, begun=time.monotonic()) as beat:
        beat.restoring = True
        Task.objects.update(state="RETRYING")
        with pytest.raises(LostTask):
            check_for_5_s(beat)


def check_for_5_s(beat: Heartbeat) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        beat.check()
        time.sleep(0.01)


def test_beats_raise_the_rows_counter(mine, monkeypatch):
    monkeypatch.setattr(attempt, "HEARTBEAT_S", 0.01)
    before = Task.objects.get().beat
    with Heartbeat(mine, begun=time.monotonic()):
        deadline = time.monotonic() + 5
        while Task.objects.get().beat < before + 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert Task.objects.get().beat >= before + 3


def test_a_worker_that_shuts_down_may_still_restore(mine):
    stopping = threading.Event()
    stopping.set()
    beat = Heartbeat(mine, begun=time.monotonic(), stopping=stopping)
    with pytest.raises(TaskError) as caught:
        beat.check()
    assert (caught.value.code, caught.value.uncounted) == ("worker_lost", True)
    beat.restoring = True
    beat.check()


def test_a_shutdown_gives_the_task_back_uncounted_and_restored(world):
    stopping = threading.Event()
    stopping.set()
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = world.commit_and_push({"app.yaml": "a: 2\n"})
    run_task(task.id, world.ports(), stopping=stopping)
    task = world.again(task)
    assert (task.state, task.error["code"], task.max_attempts) == ("RETRYING", "worker_lost", 7)
    assert world.values() == {"a": "1"}


def test_a_shutdown_between_two_operations_still_gives_back_what_was_written(world):
    """Sync invariant 16."""
    stopping = threading.Event()
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = world.commit_and_push({"app.yaml": "a: 2\n"})
    write = world.sink.write

    def write_and_stop(destination: Any, puts: Any, mark: Any) -> None:
        write(destination, puts, mark)
        stopping.set()

    world.sink.write = write_and_stop
    run_task(task.id, world.ports(), stopping=stopping)

    task = world.again(task)
    assert (task.state, task.error["code"]) == ("RETRYING", "worker_lost")
    assert world.values() == {"a": "1"}
