"""A lock on SQLite that never ends: what is said, and how soon."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.integration.test_store_away import (
    READINESS,
    ask_everything,
    is_broken,
    says_away,
    visitor_of,
)
from tests.support.cluster import Cluster, is_ready
from tests.support.processes import until
from tests.support.timing import slowness

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.slow, pytest.mark.timed]
LIMIT_S: Final = 3.0  # UNIT_OF_WORK_PATIENCE is 2 s; a password is hashed meanwhile


def test_a_lock_on_sqlite_that_never_ends_is_said(tmp_path: Path):
    """Readers are not kept out by it; whoever has to write is told."""
    environment = {"DB_DRIVER": "sqlite", "REDIS_ADDR": ""}
    with Cluster(tmp_path / "c", parts=["web"], environment=environment) as cluster:
        visitor = visitor_of(cluster)
        path = cluster.folder / "data" / "partita.sqlite3"
        with closing(sqlite3.connect(path, isolation_level=None, timeout=20)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            answers = ask_everything(visitor)
            holder.execute("ROLLBACK")

        limit_s = LIMIT_S * slowness()
        late = {row: seconds for row, (_, seconds) in answers.items() if seconds > limit_s}
        assert late == {}
        broken = {row: each.status_code for row, (each, _) in answers.items() if is_broken(each)}
        assert broken == {row: 503 for row in answers if READINESS.fullmatch(row)}
        assert says_away(answers["POST /api/v1/auth/sign-in"][0])
        assert says_away(answers["POST /api/v1/auth/sign-up"][0])
        assert answers["GET /api/v1/executions"][0].status_code == 200
        until(lambda: is_ready(cluster.url), within_s=30, what="it is ready again")
