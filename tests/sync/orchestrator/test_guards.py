"""What may never be deleted, and what a dry run may never do."""

from __future__ import annotations

import json

import pytest

from sync_stack.configuration.secrets import SecretAbsent, SecretUnavailable
from sync_stack.core.bundle.rules import Prune, Rule
from sync_stack.core.bundle.secret_managers import SecretManager, TokenAuth
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.services.execution.task_runner import run_task
from sync_stack.repositories import GitError
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
    assert not LedgerTarget.objects.exists()


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
    assert [unit.rule_id for unit in LedgerTarget.objects.all()] == ["renamed"]


@pytest.mark.parametrize("content", ["", "{}\n", "# nothing\n"])
def test_a_file_that_became_empty_deletes_nothing(tmp_path, content):
    """Sync invariant 14: whatever the ratio allows."""
    world = World(tmp_path, rules=(pruning(max_delete_ratio=1.0, max_delete_floor=100),))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    before = world.sink.dump(PLACE)
    task = world.finish(world.commit_and_push({"app.yaml": content}))
    assert (task.state, task.message) == ("FAILED", "prune_guard")
    assert world.sink.dump(PLACE) == before


def test_a_file_for_other_environments_only_deletes_nothing(tmp_path):
    """Sync invariants 14, 20."""
    world = World(tmp_path, rules=(pruning(max_delete_ratio=1.0, allow_empty=True),))
    world.finish(world.commit_and_push({"app.yaml": "production:\n  a: 1\n"}))
    task = world.finish(world.commit_and_push({"app.yaml": "staging:\n  a: 2\n"}))
    assert (task.state, task.message) == ("SUCCEEDED", "env_not_in_file")
    assert world.values() == {"a": "1"}


def test_git_that_breaks_while_files_are_read_deletes_nothing(tmp_path, monkeypatch):
    """Sync invariants 14, 19."""
    world = World(tmp_path, rules=(pruning(max_delete_ratio=1.0, allow_empty=True),))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    ports = world.ports()

    def breaks(*_given, **_options):
        raise GitError("git_unavailable", "the connection was reset")

    monkeypatch.setattr(ports.repositories, "content", breaks)
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    run_task(task.id, ports)
    task = world.again(task)
    assert (task.state, task.error["code"]) == ("RETRYING", "git_unavailable")
    assert LedgerTarget.objects.get().stale_since
    assert world.values() == {"a": "1", "b": "2"}


def test_a_secret_that_cannot_be_had_writes_nothing_and_no_placeholder(tmp_path):
    """Sync invariant 18."""
    world = World(tmp_path, rules=(rule(secret_manager="vault"),))
    auth = TokenAuth(token=SecretRef(value="t"))
    world.secret_managers = (
        SecretManager(name="vault", kind="vault", endpoint="http://127.0.0.1:1", auth=auth),
    )
    world.finish(world.commit_and_push({"app.yaml": "password: old\nport: 1\n"}))

    def fails(ref, _names):
        raise SecretUnavailable(f"{ref}: the manager is sealed")

    marked = 'password: "@secret(db#password)"\nport: 2\n'
    task = world.run(world.commit_and_push({"app.yaml": marked}), resolve=fails)
    assert (task.state, task.error["code"]) == ("RETRYING", "secret_unavailable")
    assert world.values() == {"password": "old", "port": "1"}
    assert world.finish(task, resolve=lambda _ref, _names: "fetched").state == "SUCCEEDED"
    assert world.values() == {"password": "fetched", "port": "2"}
    assert "fetched" not in json.dumps([task.request, task.result, task.memory])


@pytest.mark.parametrize("layout", [Layout.HASH, Layout.KEY_VALUE, Layout.DOCUMENT])
def test_a_prune_that_is_only_tried_deletes_nothing_and_says_what_would_go(tmp_path, layout):
    """Sync invariant 22."""
    tried = pruning(dry_run=True, max_delete_ratio=1.0)
    world = World(tmp_path, rules=(tried,), sink=FakeSink(layout))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert task.result["targets"][0]["would_prune"] == ["b"]
    assert (task.result["pruned"], world.values()) == (0, {"a": "1", "b": "2"})


def test_two_names_of_one_place_never_have_two_writers(tmp_path):
    """Sync invariant 11."""
    sink = FakeSink(Layout.HASH)
    rules = (
        rule(name="one", datasource="one", segment="one", file_name="one.yaml"),
        rule(name="two", datasource="two", segment="two", file_name="two.yaml"),
    )
    world = World(tmp_path, rules=rules, sink={"one": sink, "two": sink})
    commit = world.repository.commit({"one.yaml": "a: 1\n", "two.yaml": "b: 2\n"})
    first = world.push(commit)
    world.rules = tuple(reversed(rules))
    second = world.push(commit)
    seen: list[str] = []
    real = sink.write

    def meanwhile(destination, puts, mark):
        if not seen:
            seen.append(world.run(second).error["code"])
        real(destination, puts, mark)

    sink.write = meanwhile  # type: ignore[method-assign]
    assert world.finish(first).state == "SUCCEEDED"
    assert seen == ["destination_busy"]
    assert world.finish(second).state == "SUCCEEDED"
    world.sink = sink
    assert world.values() == {"a": "1", "b": "2"}


@pytest.mark.parametrize("names_a_manager", [True, False])
def test_a_secret_that_the_bundle_cannot_mean_is_not_asked_for_again(tmp_path, names_a_manager):
    """An unknown manager, path or key fails at once; a server that is away is waited for."""
    world = World(tmp_path, rules=(rule(secret_manager="vault" if names_a_manager else ""),))
    auth = TokenAuth(token=SecretRef(value="t"))
    manager = SecretManager(name="vault", kind="vault", endpoint="http://127.0.0.1:1", auth=auth)
    world.secret_managers = (manager,) if names_a_manager else ()

    def absent(ref, _names):
        raise SecretAbsent(f"{ref} is not there")

    marked = 'password: "@secret(db#password)"\n'
    task = world.run(world.commit_and_push({"app.yaml": marked}), resolve=absent)

    assert (task.state, task.message) == ("FAILED", "secret_unavailable")
    assert task.error["retryable"] is False
    assert world.values() == {}
