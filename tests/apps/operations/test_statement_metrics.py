"""What `METRICS_ADDR` serves of statements to PostgreSQL, by django-prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DataError
from django.db.utils import ConnectionHandler

from apps.observability import metrics
from platform_site.settings.store import databases
from tests.support.parts import need

pytestmark = pytest.mark.postgres


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("POSTGRES_DSN", need("TEST_POSTGRES_DSN", "PostgreSQL"))
    entry: Any = databases("postgres", tmp_path)["default"]
    with django_db_blocker.unblock():
        connection: Any = ConnectionHandler({"default": entry, "counted": entry})["counted"]
        yield connection
        connection.close()
        connection.close_pool()


def value_of(name: str, **labels: str) -> float:
    labels |= {"alias": "counted", "vendor": "postgresql"}
    return metrics.registry.get_sample_value(f"django_db_{name}", labels) or 0.0


def test_statements_and_their_errors_are_counted_and_timed(store: Any) -> None:
    metrics.serve_statements()
    opened = value_of("new_connections_total")
    with store.cursor() as cursor:
        before = value_of("execute_total"), value_of("query_duration_seconds_count")
        cursor.execute("SELECT %s::int", ["1"])
        with pytest.raises(DataError):
            cursor.execute("SELECT %s::int", ["x"])

    # the pool's own statements, for checks and new connections, count as well
    assert value_of("execute_total") >= before[0] + 2
    assert value_of("query_duration_seconds_count") >= before[1] + 2
    assert value_of("errors_total", type="InvalidTextRepresentation") == 1
    assert value_of("new_connections_total") == opened + 1


def test_a_connection_stays_one_whose_waits_are_bounded(store: Any) -> None:
    store.ensure_connection()

    assert type(store.connection).__name__ == "BoundedConnection"
