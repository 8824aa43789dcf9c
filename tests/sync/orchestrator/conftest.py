from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sync_world import World


@pytest.fixture(autouse=True)
def _store(transactional_db) -> None:
    """Real commits: every state change here is one."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
