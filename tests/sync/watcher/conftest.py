from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sync_world import World
from tests.sync.watcher.watching import Loop, Watching


@pytest.fixture(autouse=True)
def _store(transactional_db) -> None:
    """Real commits: every state change here is one."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def watching(world: World) -> Iterator[Watching]:
    """A watcher of a world where `a` and `b` were synchronized; its rule heals."""
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    with Loop() as loop:
        yield Watching(world, loop)
