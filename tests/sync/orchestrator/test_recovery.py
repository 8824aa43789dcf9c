"""What a killed attempt left half written is given back, also where nobody comes to write again."""

from __future__ import annotations

from typing import Any

import pytest

from sync_stack.core.bundle.rules import Cleanup, CleanupAction, OnMissingFile
from sync_stack.orchestrator.models import JournalChunk, LedgerTarget, Task
from sync_stack.orchestrator.services.execution import target_writes
from sync_stack.orchestrator.services.execution.target_writes import store_intent
from sync_stack.orchestrator.services.reconcile import reconcile
from tests.support.sync_world import World, rule
from tests.sync.orchestrator.test_crashes import Killed, recover

pytestmark = pytest.mark.store
BEFORE = {"a": "1", "b": "2"}


@pytest.fixture
def half_written(tmp_path) -> tuple[World, Task]:
    """Killed between the writes of two keys, at `staging-shop`."""
    world = World(tmp_path)
    return world, write_half(world, "staging-shop")


def write_half(world: World, destination: str) -> Task:
    world.finish(world.commit_and_push({"app.yaml": "a: 0\n"}))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}, branch="develop"))
    task = world.commit_and_push({"app.yaml": "a: 9\nb: 9\n"}, branch="develop")
    write = world.sink.write

    def half(destination: Any, puts: Any, mark: Any) -> None:
        write(destination, puts[:1], mark)
        raise Killed

    world.sink.write = half
    with pytest.raises(Killed):
        world.run(task)
    world.sink.write = write
    assert world.values(destination) == {"a": "9", "b": "2"}
    recover(task, world)
    return task


def assert_given_back(world: World) -> None:
    assert world.values("staging-shop") == BEFORE
    assert not LedgerTarget.objects.exclude(intent_task_id="").exists()
    assert not JournalChunk.objects.exists()


def test_where_the_ref_is_gone_since(half_written):
    """Sync invariants 16, 17."""
    world, task = half_written
    world.repository.git("push", "-q", "origin", "--delete", "develop")
    assert world.finish(task).message == "ref_deleted"
    assert_given_back(world)


def test_where_the_destination_has_moved(half_written):
    """Sync invariants 16, 17."""
    world, task = half_written
    world.with_rules(destination_template="moved-{env}")
    assert world.finish(task).message == "completed"
    assert world.values("moved-staging") == {"a": "9", "b": "9"}
    assert_given_back(world)


def test_where_the_next_attempt_fails_for_good_before_it_comes_to_the_unit(half_written):
    """Sync invariants 16, 18."""
    world, task = half_written
    world.with_rules(on_missing_file=OnMissingFile.FAIL)
    world.commit_and_push({"app.yaml": None}, branch="develop")
    assert world.finish(task).message == "file_missing"
    assert_given_back(world)


def test_a_restore_that_fails_is_tried_again(half_written):
    """Sync invariant 16."""
    world, task = half_written
    world.repository.git("push", "-q", "origin", "--delete", "develop")
    world.sink.partial = True
    assert world.run(task).error["code"] == "restore_failed"
    world.sink.partial = False
    assert world.finish(task).message == "ref_deleted"
    assert_given_back(world)


def test_a_dry_run_gives_nothing_back(half_written):
    """Sync invariant 22."""
    world, task = half_written
    world.with_rules(dry_run=True)
    world.repository.git("push", "-q", "origin", "--delete", "develop")
    assert world.finish(task).message == "ref_deleted"
    assert world.values("staging-shop") == {"a": "9", "b": "2"}


def test_a_dry_run_of_a_clean_up_gives_nothing_back(tmp_path):
    """Sync invariant 22."""
    cleanup = Cleanup(on_branch_delete=CleanupAction.PRUNE)
    world = World(tmp_path, rules=(rule(branch_map={}, env_as_branch=True, cleanup=cleanup),))
    task = write_half(world, "develop-shop")
    world.with_rules(dry_run=True)
    world.repository.git("push", "-q", "origin", "--delete", "develop")
    assert world.finish(task).message == "dry_run_complete"
    assert world.values("develop-shop") == {"a": "9", "b": "2"}
    assert LedgerTarget.objects.exclude(intent_task_id="").exists()


def test_a_dry_run_is_not_looked_at_again_for_what_is_half_written(half_written):
    """Sync invariants 12, 22."""
    world, task = half_written
    world.with_rules(dry_run=True)
    assert world.finish(task).message == "dry_run_complete"
    assert reconcile_and_finish(world) == 1, "the other ref, whose rule is another one now"
    assert reconcile_and_finish(world) == 0
    world.with_rules(dry_run=False)
    assert reconcile_and_finish(world) == 2
    assert world.values("staging-shop") == {"a": "9", "b": "9"}
    assert not LedgerTarget.objects.exclude(intent_task_id="").exists()


def test_where_a_frozen_attempt_goes_on_when_another_has_found_the_ref_gone(tmp_path, monkeypatch):
    """Sync invariants 16, 17: its first intent is found by the next reconcile."""
    world = World(tmp_path)
    world.finish(world.commit_and_push({"app.yaml": "a: 0\n"}))
    task = world.commit_and_push({"app.yaml": "a: 1\n"}, branch="develop")

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(target_writes, "store_intent", store_intent)
        world.repository.git("push", "-q", "origin", "--delete", "develop")
        recover(task, world)
        assert world.finish(task).message == "ref_deleted"
        store_intent(*arguments)
        raise Killed

    monkeypatch.setattr(target_writes, "store_intent", late)
    with pytest.raises(Killed):
        world.run(task)
    assert LedgerTarget.objects.exclude(intent_task_id="").exists()

    assert reconcile_and_finish(world) == 1
    assert not LedgerTarget.objects.exclude(intent_task_id="").exists()
    assert reconcile_and_finish(world) == 0


def reconcile_and_finish(world: World) -> int:
    made = reconcile(world.ports())
    for task in Task.objects.filter(finished_at=None):
        world.finish(task)
    return made
