"""Commands of operators."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from sync_stack.core.bundle.model import FileEnvironment, Prune
from sync_stack.orchestrator.management.base import SyncCommand
from sync_stack.orchestrator.models import LedgerUnit, Task
from tests.support.sync_world import World, rule


class Opened:
    """The world's bundle as a configuration."""

    def __init__(self, world: World) -> None:
        self.bundle = world.bundle

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def world(tmp_path, monkeypatch) -> World:
    prune = Prune(enabled=True)
    world = World(tmp_path, rules=(rule(repositories=("acme/shop",), prune=prune),))
    monkeypatch.setattr(SyncCommand, "bundle", lambda _self: Opened(world))
    monkeypatch.setattr(SyncCommand, "ports", lambda _self, _configuration: world.ports())
    return world


def told(name: str, *arguments: str):
    out = StringIO()
    call_command(name, *arguments, "-o", "json", stdout=out)
    return json.loads(out.getvalue())


def test_a_triggered_rule_is_synced(world):
    world.repository.commit({"app.yaml": "a: 1\n"})
    made = told("sync_trigger", "--rule", "shop", "--env", "production")["tasks"]
    assert len(made) == 1
    assert world.finish(Task.objects.get(id=made[0])).message == "completed"
    assert [unit["keys"] for unit in told("sync_status")["targets"]] == [1]
    assert [task["kind"] for task in told("sync_history", "--rule", "shop")["tasks"]] == ["manual"]


def test_an_unknown_rule_is_named_with_the_known_ones(world):
    with pytest.raises(CommandError, match="known: shop"):
        call_command("sync_trigger", "--rule", "shopp")


def test_a_plan_shows_what_would_happen_and_writes_nothing(world):
    """Sync invariant 22."""
    world.repository.commit({"app.yaml": "a: 1\nb: 2\n"})
    plans = told("sync_plan", "--rule", "shop")["plans"]
    assert plans[0]["result"]["targets"][0]["outcome"] == "planned"
    assert plans[0]["result"]["written"] == 2
    assert world.values() == {}
    assert not LedgerUnit.objects.exists()


def test_an_approved_prune_happens_once_and_for_the_listed_keys_only(world):
    """Sync invariant 14."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\n"}))
    stopped = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert stopped.message == "prune_guard"
    approved = told("sync_approve_prune", stopped.id)
    assert approved["keys"] == ["b", "c"]
    task = world.finish(Task.objects.get(id=approved["task_id"]))
    assert (task.state, task.approved_by, world.values()) == ("SUCCEEDED", stopped.id, {"a": "1"})
    with pytest.raises(CommandError, match="unknown or did not fail"):
        call_command("sync_approve_prune", task.id)


def test_what_is_approved_for_one_environment_is_not_let_go_in_another(tmp_path, monkeypatch):
    """Sync invariant 14: the same key of another unit is still guarded."""
    files = ("p.yaml", "production"), ("s.yaml", "staging")
    mapped = tuple(FileEnvironment(path=path, env=env) for path, env in files)
    world = World(
        tmp_path,
        rules=(rule(file_name="", file_path_map=mapped, branch_map={}, prune=Prune(enabled=True)),),
    )
    monkeypatch.setattr(SyncCommand, "bundle", lambda _self: Opened(world))
    whole, cut = "a: 1\nb: 2\nc: 3\n", "a: 1\n"
    world.finish(world.commit_and_push({"p.yaml": whole, "s.yaml": whole}))
    stopped = world.finish(world.commit_and_push({"p.yaml": cut}))
    approved = told("sync_approve_prune", stopped.id)
    world.repository.commit({"s.yaml": cut})
    task = world.finish(Task.objects.get(id=approved["task_id"]))
    assert task.message == "prune_guard"
    assert world.values("staging-shop") == {"a": "1", "b": "2", "c": "3"}


def test_orphans_are_listed_and_released_without_touching_the_sink(world):
    """Sync invariant 13."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert told("sync_orphans")["orphans"] == []
    world.with_rules(repositories=("other/x",))
    assert [each["rule_id"] for each in told("sync_orphans")["orphans"]] == ["shop"]
    assert told("sync_orphans", "--release")["orphans"][0]["released"]
    assert told("sync_orphans")["orphans"] == []
    assert world.values() == {"a": "1"}


def test_drift_of_nobody_is_an_empty_list(world):
    assert told("sync_drift") == {"drift": []}
