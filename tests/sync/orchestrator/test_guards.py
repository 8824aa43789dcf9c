"""What may never be deleted, and what a dry run may never do."""

from __future__ import annotations

import pytest

from sync_stack.core.bundle.model import Prune, Rule
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.models import LedgerUnit
from tests.support.fake_sink import FakeSink, Layout
from tests.support.sync_world import World, rule

pytestmark = pytest.mark.store
PLACE = Destination(kind="fake", name="production-shop", address="fake://memory/production-shop")


def pruning(**fields) -> Rule:
    return rule(prune=Prune(enabled=True, **fields))


def test_the_guard_leaves_the_sink_byte_for_byte_as_it_was(tmp_path):
    """Sync invariant 14."""
    world = World(tmp_path, rules=(pruning(),))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\nd: 4\n"}))
    before = world.sink.dump(PLACE)
    task = world.finish(world.commit_and_push({"app.yaml": "a: 9\n"}))
    assert (task.state, task.message) == ("FAILED", "prune_guard")
    assert task.result["targets"][0]["would_prune"] == ["b", "c", "d"]
    assert world.sink.dump(PLACE) == before


def test_keys_of_others_survive_a_prune(tmp_path):
    """Sync invariant 13."""
    world = World(tmp_path, rules=(pruning(max_delete_ratio=1.0),))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    world.sink.put_by_hand(PLACE, "foreign", {"foreign": "x"})
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert task.result["pruned"] == 1
    assert world.values() == {"a": "1", "foreign": "x"}


def test_a_partial_read_deletes_and_writes_nothing(tmp_path):
    """Sync invariant 14."""
    world = World(tmp_path, rules=(pruning(max_delete_ratio=1.0),))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    before = world.sink.dump(PLACE)
    world.sink.partial = True
    task = world.run(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert (task.state, task.error["code"]) == ("RETRYING", "sink_timeout")
    assert world.sink.dump(PLACE) == before


@pytest.mark.parametrize("layout", [Layout.HASH, Layout.DOCUMENT])
def test_a_dry_run_writes_neither_settings_nor_ledger(tmp_path, layout):
    """Sync invariant 22."""
    world = World(tmp_path, rules=(rule(dry_run=True),), sink=FakeSink(layout))
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert (task.state, task.message) == ("SUCCEEDED", "dry_run_complete")
    assert task.result["targets"][0]["outcome"] == "planned"
    assert world.values() == {}
    assert not LedgerUnit.objects.exists()


def test_one_bad_file_of_a_rule_writes_nothing_of_the_others(tmp_path):
    """Sync invariants 16, 18."""
    world = World(tmp_path, rules=(rule(file_name=""),))
    world.finish(world.commit_and_push({"a.yaml": "a: 1\n", "b.yaml": "b: 1\n"}))
    task = world.finish(world.commit_and_push({"a.yaml": "a: 2\n", "b.yaml": "b: [\n"}))
    assert (task.message, task.error["file"]) == ("parse_error", "b.yaml")
    assert world.values() == {"a": "1", "b": "1"}


def test_a_rule_that_fails_does_not_stop_the_next(tmp_path):
    """Sync invariants 16, 35."""
    bad = rule(name="bad", file_name="bad.yaml", destination_template="bad")
    world = World(tmp_path, rules=(bad, rule()))
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n", "bad.yaml": "x: [\n"}))
    assert (task.state, task.message) == ("FAILED", "parse_error")
    assert world.values() == {"a": "1"}
    outcomes = {target["rule_id"]: target["outcome"] for target in task.result["targets"]}
    assert outcomes == {"bad": "failed", "shop": "applied"}


def test_a_finished_rule_is_not_repeated_by_the_retry_of_another(tmp_path):
    first, second = FakeSink(Layout.HASH), FakeSink(Layout.HASH)
    rules = (
        rule(name="one", datasource="one"),
        rule(name="two", datasource="two", destination_template="two"),
    )
    world = World(tmp_path, rules=rules, sink={"one": first, "two": second})
    second.break_after = 0
    task = world.run(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert task.state == "RETRYING"
    first.break_after = 0
    second.break_after = None
    assert world.finish(task).state == "SUCCEEDED"


def test_a_record_of_another_unit_is_an_ownership_conflict(tmp_path):
    """Sync invariant 13."""
    other = rule(name="other", file_name="other.yaml")
    world = World(tmp_path, rules=(rule(), other))
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n", "other.yaml": "a: 2\n"}))
    assert (task.state, task.message) == ("FAILED", "ownership_conflict")
    assert world.values() == {"a": "1"}


def test_a_unit_passes_to_the_rule_that_replaces_its_own(tmp_path):
    world = World(tmp_path, rules=(pruning(max_delete_ratio=1.0),))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    world.with_rules(name="renamed")
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert (task.state, task.result["pruned"]) == ("SUCCEEDED", 1)
    assert [unit.rule_id for unit in LedgerUnit.objects.all()] == ["renamed"]
