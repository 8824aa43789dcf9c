"""Which files an environment is made of, when a rule maps files (reference: sync-stack 4.3)."""

from __future__ import annotations

import pytest

from sync_stack.core.bundle.file_maps import FileEnvironment
from tests.support.sync_world import World, rule

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
