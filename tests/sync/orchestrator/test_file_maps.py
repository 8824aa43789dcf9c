"""Which files an environment is made of, when a rule maps files (reference: sync-stack 4.3)."""

from __future__ import annotations

import pytest

from sync_stack.core.bundle.file_maps import FileEnvironment
from sync_stack.core.bundle.rules import Prune
from sync_stack.orchestrator.models import LedgerTarget
from tests.support.sync_world import World, rule
from tests.sync.orchestrator.test_accept import trigger

pytestmark = pytest.mark.store
FILES: dict[str, str | None] = {"p.yaml": "p: 1\n", "s.yaml": "s: 1\n"}
MAPPED = (("p.yaml", "production"), ("s.yaml", "staging"))


def mapping(tmp_path, *, by_env: bool, **fields) -> World:
    entries = tuple(FileEnvironment(path=path, env=env, by_env=by_env) for path, env in MAPPED)
    return World(tmp_path, rules=(rule(file_name="", file_path_map=entries, **fields),))


@pytest.mark.parametrize(
    ("environment", "values"),
    [("production", {"p": "1"}), ("staging", {"s": "1"}), ("qa", {})],
)
def test_an_environment_is_made_of_its_own_file_of_a_map_by_environment(
    tmp_path, environment, values
):
    """Sync invariant 20: another environment's file never appears, not even where there is none."""
    world = mapping(tmp_path, by_env=True, branch_map={"main": environment})
    task = world.finish(world.commit_and_push(FILES))
    assert task.message == ("completed" if values else "no_files")
    assert world.values(f"{environment}-shop") == values


def test_a_mapped_branch_takes_every_file_of_a_map_by_path(tmp_path):
    world = mapping(tmp_path, by_env=False, branch_map={"main": "production"})
    world.finish(world.commit_and_push(FILES))
    assert world.values() == {"p": "1", "s": "1"}


@pytest.mark.parametrize("by_env", [False, True])
def test_without_a_mapped_branch_each_file_goes_to_its_own_environment(tmp_path, by_env):
    world = mapping(tmp_path, by_env=by_env, branch_map={})
    world.finish(world.commit_and_push(FILES))
    assert (world.values("production-shop"), world.values("staging-shop")) == (
        {"p": "1"},
        {"s": "1"},
    )


def test_a_heal_keeps_owning_what_a_missing_file_had_set(tmp_path):
    """Sync invariant 15: `keep` holds after a heal, too; the next sync does not prune it."""
    paths = ("p.yaml", "s.yaml")
    entries = tuple(FileEnvironment(path=path, env="production", by_env=True) for path in paths)
    wanted = rule(
        file_name="",
        file_path_map=entries,
        self_heal=True,
        prune=Prune(enabled=True, max_delete_ratio=1.0),
    )
    world = World(tmp_path, rules=(wanted,))
    world.finish(world.commit_and_push(FILES))
    world.finish(world.commit_and_push({"s.yaml": None}))
    target = LedgerTarget.objects.get()

    healed = world.finish(trigger(world, target, target.generation, commit=target.commit))
    world.finish(world.commit_and_push({"p.yaml": "p: 2\n"}))

    assert healed.kind == "heal"
    assert world.values() == {"p": "2", "s": "1"}
