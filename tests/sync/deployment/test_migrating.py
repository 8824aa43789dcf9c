"""`run_orchestrator --migrate` waits for its store, and no longer than it says.

(reference: sync-stack 7.1)
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from sync_stack.configuration.startup import StartRefused
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.server.startup import migrate
from tests.support.processes import ROOT


class Store:
    """Refuses connections as often as it is told, then answers; `slept` is the time that passed."""

    def __init__(self, refusals: Iterator[bool]) -> None:
        self._refusals = refusals
        self._connect = connection.ensure_connection
        self.slept = 0.0

    def ensure_connection(self) -> None:
        if next(self._refusals, False):
            raise OperationalError("away, with a password in its text")
        self._connect()

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def monotonic(self) -> float:
        return self.slept


def migrated(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ensure_connection", store.ensure_connection)
    migrate(sleep=store.sleep, monotonic=store.monotonic)


@pytest.mark.django_db(transaction=True)
def test_a_store_that_comes_late_gets_its_tables(monkeypatch):
    store = Store(iter([True] * 40))
    migrated(store, monkeypatch)
    assert store.slept == 40
    assert Task.objects.count() == 0


def test_a_store_that_stays_away_ends_the_start(monkeypatch):
    store = Store(repeat(True))
    with pytest.raises(StartRefused) as refusal:
        migrated(store, monkeypatch)
    assert store.slept == 60
    assert refusal.value.exit_code == 69
    assert refusal.value.lines == ("the store did not answer within 60 s: OperationalError",)


def test_a_process_of_the_sync_alone_opens_its_store(tmp_path: Path):
    """Its settings have the engines of the control plane, and none of its apps."""
    program = "import django; django.setup(); from django.db import connection as c; c.connect()"
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.sync",
        "DB_DRIVER": "sqlite",
        "SQLITE_PATH": str(tmp_path / "store.sqlite3"),
        "SECRET_KEY": "a-secret-key-of-a-test-0123456789-0123456789-0123456789",
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
