from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.executions.selectors.artifact_bytes import forget_pauses
from apps.executions.services import run_outbox
from apps.mocks import api as mocks
from tests.apps.executions.mocks import MockPlane
from tests.apps.executions.runs import Worker
from tests.support.artifact_storages import FailingStorage, fail_storage, new_bucket


@pytest.fixture(autouse=True)
def _store(transactional_db, settings, tmp_path) -> None:
    """Real transactions: what follows a commit is part of every test here."""
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "none.yaml"
    settings.SUITES_DIR = tmp_path / "suites"


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> MockPlane:
    made = MockPlane()
    for name in (
        "wait_until_ready", "reset_space", "journal_delay_s", "journal_gap",
        "read_journal", "forget_spaces",
    ):  # fmt: skip
        monkeypatch.setattr(mocks, name, getattr(made, name))
    return made


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The Celery tasks that runs send, with their arguments."""
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        run_outbox, "enqueue", lambda task, *arguments, **_: sent.append((task, *arguments))
    )
    return sent


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if getattr(request, "param", "disk") == "s3":
        return new_bucket(monkeypatch)
    return tmp_path.as_uri()


@pytest.fixture
def failing(settings: Any, url: str) -> FailingStorage:
    return fail_storage(settings, url)


@pytest.fixture(autouse=True)
def _no_pauses() -> Iterator[None]:
    forget_pauses()
    yield
    forget_pauses()
