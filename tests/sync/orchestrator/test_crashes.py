"""Killed between any two operations: the next attempt ends in what Git says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kernel import clock
from sync_stack.core.bundle.rules import Prune
from sync_stack.core.sink import SinkError, TargetMarker
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.models import DestinationLock, JournalChunk, LedgerTarget, Task
from sync_stack.orchestrator.services.execution import target_writes, task_runner
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.reconcile import reconcile
from sync_stack.orchestrator.services.ref_records import record_refs
from sync_stack.orchestrator.services.sweeps import LostWorkerDetector
from tests.support.fake_sink import FakeSink, Layout
from tests.support.sync_world import World, rule

pytestmark = pytest.mark.store
BEFORE = "a: 1\nb: 2\nc: 3\n"
AFTER = "a: 1\nb: 20\nd: 4\n"
OPERATIONS = 14  # more than an attempt has
FEWEST = 3  # that every attempt has


class Killed(BaseException):
    """The process ends here: nothing is tidied up."""


class Deadly:
    """A sink that kills its process before or after the n-th call."""

    def __init__(self, sink: FakeSink, calls: int, *, after: bool) -> None:
        self._sink, self._left, self._after = sink, calls, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._sink, name)
        if name not in ("read", "write", "delete", "fence"):
            return found

        def call(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            answer = found(*arguments)
            if self._left == 0:
                raise Killed
            return answer

        return call


def recover(task: Task, world: World) -> None:
    """What the sweep does once the beat has stood still for 25 s of its own clock."""
    now = [0.0]
    sweep = LostWorkerDetector(clock=lambda: now[0])
    assert sweep.sweep(world.published.extend) == 0
    now[0] = 26.0
    assert sweep.sweep(world.published.extend) == 1
    assert world.again(task).error["code"] == "worker_lost"


@pytest.fixture(params=[Layout.HASH, Layout.DOCUMENT])
def prepared(request, tmp_path) -> World:
    one = rule(prune=Prune(enabled=True, max_delete_ratio=1.0))
    world = World(tmp_path, rules=(one,), sink=FakeSink(request.param))
    world.finish(world.commit_and_push({"app.yaml": BEFORE}))
    return world


def assert_settled(world: World) -> None:
    assert world.values() == {"a": "1", "b": "20", "d": "4"}
    assert not LedgerTarget.objects.exclude(intent_task_id="").exists()
    assert not JournalChunk.objects.exists()
    assert not DestinationLock.objects.exclude(holder_task="").exists()


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_operation_is_made_good_by_the_next_attempt(prepared, after):
    """Sync invariants 1, 17."""
    killed = 0
    for calls in range(1, OPERATIONS):
        prepared.finish(prepared.commit_and_push({"app.yaml": BEFORE}))
        task = prepared.commit_and_push({"app.yaml": AFTER})
        deadly = Deadly(prepared.sink, calls, after=after)
        try:
            prepared.run(task, open_sink=lambda _datasource, sink=deadly: sink)
        except Killed:
            killed = calls
            recover(task, prepared)
            task = prepared.finish(task)
        assert task.finished_at or prepared.again(task).state == "SUCCEEDED"
        assert_settled(prepared)
        if killed < calls:  # the attempt has no such operation
            break
    assert FEWEST <= killed < OPERATIONS - 1


@pytest.mark.parametrize("step", ["store_intent", "finish_rule_sync", "commit_intent"])
def test_a_kill_between_two_writes_of_the_store_is_made_good(prepared, step, monkeypatch):
    """Sync invariants 1, 16, 17."""

    def killed(*_arguments: Any) -> None:
        raise Killed

    task = prepared.commit_and_push({"app.yaml": AFTER})
    with monkeypatch.context() as patch:
        owner = Attempt if step == "finish_rule_sync" else target_writes
        patch.setattr(owner, step, killed)
        with pytest.raises(Killed):
            prepared.run(task)
    recover(task, prepared)
    assert prepared.finish(task).state == "SUCCEEDED"
    assert_settled(prepared)


@pytest.mark.parametrize(("last", "expected"), [("x", "1"), ("y", "2")])
def test_a_late_attempt_hides_no_rule_that_was_changed_meanwhile(
    tmp_path, monkeypatch, last, expected
):
    """Sync invariant 12: the attempt ends with what an earlier one had applied."""
    world = World(tmp_path, rules=(rule(root_key="x"),))
    task = world.commit_and_push({"app.yaml": "x: {a: 1}\ny: {a: 2}\n"})

    def killed_after(*arguments: Any) -> None:
        record_refs(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(task_runner, "record_refs", killed_after)
        with pytest.raises(Killed):
            world.run(task)
    recover(task, world)
    world.with_rules(root_key="y")
    assert (reconciled(world), world.values()) == (1, {"a": "2"})
    world.finish(task)

    world.with_rules(root_key=last)
    assert (reconciled(world), world.values()) == (1, {"a": expected})
    assert reconciled(world) == 0


def reconciled(world: World) -> int:
    made = reconcile(world.ports())
    for found in Task.objects.filter(kind="reconcile", finished_at=None):
        world.finish(found)
    return made


def test_after_a_kill_another_commit_restores_first_and_then_applies(prepared):
    """Sync invariants 7, 16."""
    task = prepared.commit_and_push({"app.yaml": AFTER})
    deadly = Deadly(prepared.sink, 2, after=True)
    with pytest.raises(Killed):
        prepared.run(task, open_sink=lambda _datasource: deadly)
    prepared.repository.commit({"app.yaml": "a: 7\n"})
    recover(task, prepared)
    assert prepared.finish(task).state == "SUCCEEDED"
    assert prepared.values() == {"a": "7"}


def test_an_attempt_that_fails_after_a_kill_gives_back_what_was_before_both(prepared, monkeypatch):
    """Sync invariants 16, 17."""
    task = prepared.commit_and_push({"app.yaml": AFTER})
    deadly = Deadly(prepared.sink, 2, after=True)
    with pytest.raises(Killed):
        prepared.run(task, open_sink=lambda _datasource: deadly)
    assert prepared.values() != {"a": "1", "b": "2", "c": "3"}
    recover(task, prepared)

    def fail(_planned: Any) -> None:
        raise TaskError("verify_failed", "it does not read back as written")

    with monkeypatch.context() as patch:
        patch.setattr(target_writes, "_verify", fail)
        failed = prepared.run(task)
    assert (failed.state, failed.error["code"]) == ("RETRYING", "verify_failed")
    assert prepared.values() == {"a": "1", "b": "2", "c": "3"}
    assert prepared.finish(task).state == "SUCCEEDED"
    assert_settled(prepared)


def test_a_lost_attempt_is_refused_before_the_next_has_read(prepared, monkeypatch):
    """Sync invariants 10, 17: what it wrote between that read and the write would be lost."""
    task = prepared.commit_and_push({"app.yaml": AFTER})

    def killed(*_arguments: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(target_writes, "_put", killed)
        with pytest.raises(Killed):
            prepared.run(task)
    lost = TargetMarker(
        rule="shop",
        repo=prepared.repository.name,
        env="production",
        generation=DestinationLock.objects.get().generation,
    )
    recover(task, prepared)
    read, refused = prepared.sink.read, []

    def read_while_the_lost_one_writes(destination: Any, *arguments: Any) -> Any:
        try:
            prepared.sink.write(destination, [], lost)
            refused.append("")
        except SinkError as error:
            refused.append(error.code)
        return read(destination, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(prepared.sink, "read", read_while_the_lost_one_writes)
        assert prepared.finish(task).state == "SUCCEEDED"
    assert refused
    assert set(refused) == {"stale_generation"}, refused
    assert_settled(prepared)


@pytest.mark.parametrize("operations", range(4))
def test_a_sink_that_fails_half_way_gets_every_value_back(tmp_path, operations):
    """Sync invariant 16."""
    world = World(tmp_path, sink=FakeSink(Layout.HASH))
    world.finish(world.commit_and_push({"app.yaml": BEFORE}))
    real = world.sink.write
    left = [operations]

    def fails(destination, puts, mark):
        if left[0] is not None and len(puts) > 1:
            real(destination, puts[: left[0]], mark)
            left[0] = None
            raise SinkError("sink_unavailable", "half way")
        real(destination, puts, mark)

    world.sink.write = fails
    task = world.run(world.commit_and_push({"app.yaml": "a: 9\nb: 9\nc: 9\n"}))
    assert (task.state, task.error["code"]) == ("RETRYING", "sink_unavailable")
    assert world.values() == {"a": "1", "b": "2", "c": "3"}
    assert world.finish(task).state == "SUCCEEDED"
    assert world.values() == {"a": "9", "b": "9", "c": "9"}


@pytest.mark.parametrize(
    "column",
    [{"request": {"events": [{"event": "unheard of"}]}}, {"memory": {"done": {"0:shop": 1}}}],
)
def test_a_row_that_cannot_be_read_ends_the_attempt_with_the_reason(world, column):
    """Sync invariant 1: a newer release may have written it."""
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    Task.objects.filter(id=task.id).update(**column)
    tried = world.run(task)
    assert (tried.state, tried.error["code"]) == ("RETRYING", "internal_error")


def test_a_worker_that_lost_its_task_does_not_touch_the_sink(world):
    """Sync invariant 10."""
    world.run(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = world.commit_and_push({"app.yaml": "a: 2\n"})

    class Stolen(FakeSink):
        def read(self, *arguments: Any) -> Any:
            Task.objects.filter(id=task.id).update(state="RETRYING", next_attempt_at=clock.now())
            return world.sink.read(*arguments)

        def __getattr__(self, name: str) -> Any:
            return getattr(world.sink, name)

    before = dict(world.values())
    world.run(task, open_sink=lambda _datasource: Stolen(Layout.HASH))
    assert world.values() == before
    Task.objects.filter(id=task.id).update(next_attempt_at=clock.now() - timedelta(seconds=1))
    assert world.finish(task).state == "SUCCEEDED"
    assert world.values() == {"a": "2"}


def test_attempts_end_in_dead_and_stay_there(world):
    """Sync invariants 35, 36."""
    task = world.commit_and_push({"app.yaml": "a: 1\n"})

    class Away(FakeSink):
        def read(self, *_arguments: Any) -> Any:
            raise SinkError("sink_unavailable", "away")

    task = world.finish(task, open_sink=lambda _datasource: Away(Layout.HASH))
    assert (task.state, task.attempt, task.message) == ("DEAD", 6, "sink_unavailable")
    assert world.finish(task).state == "DEAD"
    assert world.values() == {}
