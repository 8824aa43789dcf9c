"""The sink ends as the ref's head, whatever comes in which order."""

from __future__ import annotations

import random
import threading
import uuid
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection

from kernel import clock
from sync_stack.core.bundle.rules import Cleanup, CleanupAction, Prune
from sync_stack.core.sink import SinkConflict
from sync_stack.core.tasks import LAG_DELAY_S
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.models import LedgerTarget, RefRecord, Task
from sync_stack.orchestrator.services import destination_locks, ledger_records, task_transitions
from sync_stack.orchestrator.services.execution.task_runner import run_task
from sync_stack.orchestrator.services.reconcile import reconcile
from sync_stack.orchestrator.services.sweeps import OVERDUE_S, retain, until_due, wake
from tests.support.fake_sink import FakeSink, Layout
from tests.support.sync_world import World, rule

pytestmark = pytest.mark.store


def test_an_older_delivery_that_comes_late_does_not_bring_the_older_commit(world):
    """Sync invariant 7."""
    first = world.repository.commit({"app.yaml": "a: 1\n"})
    second = world.repository.commit({"app.yaml": "a: 2\n"})
    world.finish(world.push(second, before=first))
    late = world.finish(world.push(first))
    assert late.state == "SUCCEEDED"
    assert world.values() == {"a": "2"}


def test_a_force_push_to_an_older_commit_rewinds(world):
    """Sync invariant 7."""
    first = world.repository.commit({"app.yaml": "a: 1\n"})
    world.finish(world.push(first))
    second = world.repository.commit({"app.yaml": "a: 2\n"})
    world.finish(world.push(second, before=first))
    world.repository.git("reset", "-q", "--hard", first)
    world.repository.push("main")
    task = world.finish(world.push(first, before=second, forced=True))
    assert task.state == "SUCCEEDED"
    assert world.values() == {"a": "1"}
    assert LedgerTarget.objects.get().commit == first


def test_a_host_that_lags_behind_is_waited_for_uncounted_and_not_for_ever(world):
    first = world.repository.commit({"app.yaml": "a: 1\n"})
    world.finish(world.push(first))
    task = world.push("f" * 40, before=first)
    for _ in range(3):
        Task.objects.filter(id=task.id).update(next_attempt_at=None)
        assert world.run(task).error["code"] == "ref_lagging"
    Task.objects.filter(id=task.id).update(next_attempt_at=None)
    task = world.run(task)
    assert (task.state, task.max_attempts) == ("SUCCEEDED", 9)


def lagging(world) -> Task:
    """A delivery of a commit before the head, of which no delivery tells what came next."""
    first, second, third = (world.repository.commit({"app.yaml": f"a: {n}\n"}) for n in "123")
    world.finish(world.push(third))
    late: Task = world.run(world.push(second, before=first))
    assert late.error["code"] == "ref_lagging"
    return late


def test_an_older_delivery_waits_for_no_host_where_a_later_one_moved_on_from_its_commit(world):
    """Sync invariant 7."""
    late = lagging(world)
    world.push(world.repository.head(), before=late.request["events"][0]["commit"])
    assert world.finish(late, attempts=1).message == "no_changes"
    assert world.values() == {"a": "3"}


def test_what_waits_for_the_host_is_superseded_once_a_later_delivery_moved_on(
    world,
):
    """Sync invariant 7."""
    late = lagging(world)
    head, commit = world.repository.head(), late.request["events"][0]["commit"]
    done = world.finish(world.push(head, before=commit))
    late = world.again(late)
    assert (late.message, late.superseded_by) == ("superseded", done.id)


def test_an_older_delivery_waits_for_no_host_that_shows_what_others_led_to(world):
    """Sync invariant 7: the last ones came first."""
    first, second, third = (world.repository.commit({"app.yaml": f"a: {n}\n"}) for n in "123")
    world.finish(world.push(third, before=second))
    late = world.run(world.push(second, before=first))
    assert (late.state, late.message) == ("SUCCEEDED", "no_changes")
    assert world.values() == {"a": "3"}


def test_a_newer_commit_that_came_first_is_waited_for_after_the_older_one_was_brought(world):
    """Sync invariant 7: deliveries in the wrong order, of a host that does not show the last."""
    first = world.repository.commit({"app.yaml": "a: 1\n"})
    newer = world.push("f" * 40, before=first)
    world.run(newer)
    world.finish(world.push(first))
    assert world.again(newer).state == "RETRYING"
    assert world.run(newer).error["code"] == "ref_lagging"


def test_a_task_that_goes_on_from_the_head_is_not_superseded_by_who_brought_that(world):
    """Sync invariant 7: the host shows its commit a moment later."""
    first = world.push(world.repository.commit({"app.yaml": "a: 1\n"}))
    head = first.request["events"][0]["commit"]
    next_one = world.push("f" * 40, before=head)
    world.run(first)
    assert world.again(next_one).state == "PENDING"
    assert world.run(next_one).error["code"] == "ref_lagging"


def test_waiting_tasks_of_the_ref_are_superseded_by_the_one_that_read_its_head(world):
    first = world.push(world.repository.commit({"app.yaml": "a: 1\n"}))
    second = world.push(world.repository.commit({"app.yaml": "a: 2\n"}))
    done = world.run(first)
    other = world.again(second)
    assert (other.state, other.message, other.superseded_by) == ("SUCCEEDED", "superseded", done.id)
    assert world.values() == {"a": "2"}


def test_a_task_that_came_after_the_look_at_the_ref_is_not_superseded(world):
    first = world.push(world.repository.commit({"app.yaml": "a: 1\n"}))
    later: list[Task] = []
    ports = world.ports()
    real = ports.repositories.ls_remote

    def looks(source):
        found = real(source)
        if not later:
            later.append(world.push(world.repository.commit({"app.yaml": "a: 2\n"})))
        return found

    ports.repositories.ls_remote = looks
    run_task(first.id, ports)
    assert world.again(later[0]).state == "PENDING"
    world.finish(later[0])
    assert world.values() == {"a": "2"}


def test_a_task_whose_first_rule_was_done_before_supersedes_nobody(tmp_path):
    """Sync invariant 7: the rule that is done has not seen the newer head."""
    first, second = FakeSink(Layout.HASH), FakeSink(Layout.HASH)
    rules = (
        rule(name="one", datasource="one"),
        rule(name="two", datasource="two", destination_template="two"),
    )
    world = World(tmp_path, rules=rules, sink={"one": first, "two": second})
    second.break_after = 0
    task = world.run(world.commit_and_push({"app.yaml": "a: 1\n"}))
    newer = world.commit_and_push({"app.yaml": "a: 2\n"})
    second.break_after = None
    world.finish(task)
    world.finish(newer)
    world.sink = first
    assert world.values() == {"a": "2"}


def test_ten_copies_of_one_delivery_are_one_task(world):
    """Sync invariant 4."""
    commit = world.repository.commit({"app.yaml": "a: 1\n"})
    body = {"ref": "refs/heads/main", "after": commit, "repository": {"full_name": "acme/shop"}}
    found: list[str] = []

    def deliver() -> None:
        found.append(world.deliver("push", body, key="the-same").id)
        connection.close()

    threads = [threading.Thread(target=deliver) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10
    assert len(set(found)) == Task.objects.count() == 1


def test_two_workers_never_run_one_task(world):
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    results: list[bool] = []

    def work() -> None:
        results.append(run_task(task.id, world.ports()))
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, False, False, True]
    assert world.again(task).attempt == 1


def test_a_destination_has_one_holder_and_who_waits_goes_on_after_it(world):
    """Sync invariant 11."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    place = LedgerTarget.objects.get().destination_id
    holder = world.push(world.repository.commit({"x": "1"}))
    running = task_transitions.claim(holder.id, holder.created_at)
    assert running is not None
    mine = Claim(running.id, running.attempt)
    assert destination_locks.acquire(place, mine).generation == 2
    task = world.run(world.commit_and_push({"app.yaml": "a: 2\n"}))
    assert (task.state, task.error["code"], task.max_attempts) == (
        "RETRYING",
        "destination_busy",
        7,
    )
    assert destination_locks.acquire(place, Claim("somebody", 1)).held_by == holder.id
    Task.objects.filter(id=holder.id).update(state="FAILED")
    assert world.finish(task).state == "SUCCEEDED"
    assert LedgerTarget.objects.get().generation == 3


def test_two_holders_of_a_destination_never_have_one_generation(world, monkeypatch):
    """Sync invariant 11: the sink tells writers apart by it, also one that locks very slowly."""
    place = "d" * 64
    theirs, mine = Claim("quick", 1), Claim("slow", 1)
    assert destination_locks.acquire(place, theirs).generation == 1
    destination_locks.release(place, theirs)
    generations: list[int] = []
    lock_of = destination_locks._lock_of

    def after_another(holder, destination_id):
        if not generations:
            generations.append(0)
            generations[0] = destination_locks.acquire(place, theirs).generation
            destination_locks.release(place, theirs)
        return lock_of(holder, destination_id)

    monkeypatch.setattr(destination_locks, "_lock_of", after_another)
    generations.append(destination_locks.acquire(place, mine).generation)

    assert generations == [2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_pushes_rewinds_and_crowds_ends_at_the_head(tmp_path, seed):
    """Sync invariant 7: generations strictly increase."""
    world = World(tmp_path, sink=FakeSink(Layout.HASH))
    chance = random.Random(seed)
    commits: list[str] = []
    waiting: list[Task] = []
    generation = 0
    for number in range(8):
        if commits and chance.random() < 0.3:
            world.repository.git("reset", "-q", "--hard", chance.choice(commits))
            world.repository.push("main")
        else:
            commits.append(world.repository.commit({"app.yaml": f"n: {number}\n"}))
        waiting.append(world.push(world.repository.head()))
        if chance.random() < 0.5:
            world.finish(waiting.pop(chance.randrange(len(waiting))))
            if unit := LedgerTarget.objects.first():
                assert unit.generation >= generation
                generation = unit.generation
    chance.shuffle(waiting)
    for task in waiting:
        assert world.finish(task).state == "SUCCEEDED"
    head = (world.repository.work / "app.yaml").read_text().split(": ")[1].strip()
    assert world.values() == {"n": head}
    assert LedgerTarget.objects.get().commit == world.repository.head()


def test_a_lost_webhook_is_found_by_the_next_reconcile(world):
    """Sync invariant 12."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.repository.commit({"app.yaml": "a: 2\n"})
    assert reconcile(world.ports()) == 1
    assert reconcile(world.ports()) == 0
    task = Task.objects.get(kind="reconcile")
    assert world.finish(task).message == "completed"
    assert world.values() == {"a": "2"}
    assert reconcile(world.ports()) == 0


def test_a_literal_repository_is_found_before_its_first_webhook(tmp_path):
    """Sync invariant 12."""
    world = World(tmp_path, rules=(rule(repositories=("acme/shop",)),))
    world.repository.commit({"app.yaml": "a: 1\n"})
    assert reconcile(world.ports()) == 1
    world.finish(Task.objects.get())
    assert world.values() == {"a": "1"}


def test_a_rule_that_was_away_for_a_moment_is_looked_at_when_it_is_back(tmp_path):
    """Sync invariant 12."""
    world = World(tmp_path, rules=(rule(repositories=("acme/shop",)),))
    world.repository.commit({"app.yaml": "a: 1\n"})
    assert reconcile(world.ports()) == 1
    here, world.rules = world.rules, ()
    assert world.finish(Task.objects.get()).message == "rule_removed"
    world.rules = here
    assert reconcile(world.ports()) == 1
    assert reconcile(world.ports()) == 0, "one task until it has looked"
    world.finish(Task.objects.latest("id"))
    assert world.values() == {"a": "1"}
    assert reconcile(world.ports()) == 0


def test_a_changed_rule_is_rendered_again(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    world.with_rules(root_key="")
    assert reconcile(world.ports()) == 1
    assert world.finish(Task.objects.get(kind="reconcile")).state == "SUCCEEDED"
    assert reconcile(world.ports()) == 0


def test_a_failed_task_is_not_repeated_by_reconciles(world):
    """Sync invariant 36."""
    world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))
    assert reconcile(world.ports()) <= 1
    for task in Task.objects.filter(state="PENDING"):
        world.finish(task)
    assert reconcile(world.ports()) == 0


def test_the_environment_of_a_deleted_branch_goes_when_the_rule_says_so(tmp_path):
    cleanup = Cleanup(on_branch_delete=CleanupAction.PRUNE)
    one = rule(branch_map={}, env_as_branch=True, cleanup=cleanup)
    world = World(tmp_path, rules=(one,))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}, branch="main"))
    world.finish(world.commit_and_push({"app.yaml": "a: 2\n"}, branch="feature"))
    assert world.values("feature-shop") == {"a": "2"}
    world.repository.git("push", "-q", "origin", "--delete", "feature")
    task = world.finish(world.push("0" * 40, "feature", deleted=True))
    assert (task.state, task.message) == ("SUCCEEDED", "cleaned_up")
    assert (world.values("feature-shop"), world.values("main-shop")) == ({}, {"a": "1"})


def test_a_clean_up_that_meets_a_conflict_is_planned_again_as_a_clean_up(tmp_path, monkeypatch):
    one = rule(
        branch_map={},
        env_as_branch=True,
        cleanup=Cleanup(on_branch_delete=CleanupAction.PRUNE),
        prune=Prune(protection=("keep",)),
    )
    world = World(tmp_path, rules=(one,), sink=FakeSink(Layout.DOCUMENT))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nkeep: 2\n"}, branch="feature"))
    world.repository.git("push", "-q", "origin", "--delete", "feature")
    write, conflicts = world.sink.write, [SinkConflict("somebody else wrote")]

    def write_after_a_conflict(*arguments: Any) -> None:
        if conflicts:
            raise conflicts.pop()
        write(*arguments)

    monkeypatch.setattr(world.sink, "write", write_after_a_conflict)
    task = world.finish(world.push("0" * 40, "feature", deleted=True))
    assert (task.attempt, task.state, task.message) == (1, "SUCCEEDED", "cleaned_up")
    assert world.values("feature-shop") == {"keep": "2"}


def test_a_deleted_branch_changes_nothing_otherwise(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.commit_and_push({"x": "1"}, branch="develop")
    world.repository.git("push", "-q", "origin", "--delete", "develop")
    task = world.finish(world.push("0" * 40, "develop", deleted=True))
    assert (task.message, world.values()) == ("ref_deleted", {"a": "1"})


def test_two_branches_of_one_environment_name_collide(tmp_path):
    world = World(tmp_path, rules=(rule(branch_map={}, env_as_branch=True),))
    world.commit_and_push({"app.yaml": "a: 1\n"}, branch="feature/x")
    task = world.finish(world.commit_and_push({"app.yaml": "a: 2\n"}, branch="feature-x"))
    assert (task.state, task.message) == ("FAILED", "env_collision")


def test_lost_hints_cost_time_and_no_task(world):
    """Sync invariant 1."""
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    world.published.clear()
    assert wake(world.published.extend) == 0
    Task.objects.update(created_at=task.created_at.replace(year=2020))
    assert wake(world.published.extend) == 1
    assert list(world.published) == [task.id]


def test_the_next_sweep_comes_when_a_retry_is_due(world):
    """Sync invariant 1."""
    assert until_due(5) == 5
    late = lagging(world)
    assert 3 < until_due(5) <= LAG_DELAY_S + 0.5
    assert until_due(1) == 1
    Task.objects.filter(id=late.id).update(next_attempt_at=clock.now() - timedelta(seconds=1))
    assert until_due(5) == 5, "what is due is for the sweep itself"


def test_a_long_queue_is_not_made_longer_by_the_sweep_for_a_minute(world):
    """Sync invariant 1: what is lost from it is published in the end."""
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    world.published.clear()
    Task.objects.update(created_at=task.created_at.replace(year=2020))
    for age_s, queued, expected in ((20, 0, 1), (20, 1, 0), (10, 0, 0), (OVERDUE_S + 10, 9, 1)):
        Task.objects.update(published_at=clock.now() - timedelta(seconds=age_s))
        assert wake(world.published.extend, partial(int, queued)) == expected


def test_tasks_that_ledgers_name_outlive_the_retention(world):
    kept = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    gone = world.finish(world.commit_and_push({"x": "1"}, branch="unmapped"))
    assert retain() == 0
    Task.objects.update(finished_at=kept.finished_at.replace(year=2020))
    assert retain() == 1
    assert not Task.objects.filter(id=gone.id).exists()
    assert [record.ref for record in RefRecord.objects.all()] == ["refs/heads/main"]


def test_git_that_is_back_ends_the_staleness_of_units_also_without_anything_to_write(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    ledger_records.mark_stale([LedgerTarget.objects.get().id], "2026-01-01T00:00:00.000Z")
    assert LedgerTarget.objects.get().stale_since
    assert world.finish(world.commit_and_push({"app.yaml": None})).message == "no_files"
    assert not LedgerTarget.objects.get().stale_since


def test_a_unit_is_stale_while_the_head_of_its_ref_cannot_be_parsed(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.finish(world.commit_and_push({"app.yaml": "b: 1\n"}, branch="develop"))

    broken = world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))
    since = stale_since("production")
    world.finish(world.commit_and_push({"app.yaml": "b: 2\n"}, branch="develop"))
    again = world.finish(world.commit_and_push({"app.yaml": "a: {\n"}))

    assert (broken.message, again.message) == ("parse_error", "parse_error")
    assert since
    assert (stale_since("production"), stale_since("staging")) == (since, "")
    world.finish(world.commit_and_push({"app.yaml": "a: 2\n"}))
    assert stale_since("production") == ""


def stale_since(env: str) -> str:
    return str(LedgerTarget.objects.get(env=env).stale_since)


def test_keys_of_tasks_are_unique_per_try(world):
    """Sync invariant 4: a repeat after a failure is a new try of the same delivery."""
    key = uuid.uuid4().hex
    commit = world.repository.commit({"app.yaml": "a: [\n"})
    body = {"ref": "refs/heads/main", "after": commit, "repository": {"full_name": "acme/shop"}}
    first = world.finish(world.deliver("push", body, key=key))
    assert first.state == "FAILED"
    second = world.deliver("push", body, key=key)
    assert (second.try_number, second.retry_of) == (2, first.id)
    assert world.deliver("push", body, key=key).id == second.id
