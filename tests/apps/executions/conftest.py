from __future__ import annotations

import pytest

from tests.apps.executions.runs import Worker


@pytest.fixture(autouse=True)
def _store(transactional_db, settings, tmp_path) -> None:
    """Real transactions: what follows a commit is part of every test here."""
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "none.yaml"
    settings.SUITES_DIR = tmp_path / "suites"


@pytest.fixture
def worker() -> Worker:
    return Worker()
