"""Processes of two versions on one store: the older one does not know the newer columns."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection

from apps.executions.models import Execution
from tests.apps.executions.runs import node, queued_run

NEWER = {"parent_span_id"}


@pytest.mark.store
@pytest.mark.skipif(connection.vendor == "mongodb", reason="a document store has no columns")
def test_a_process_that_is_older_than_a_column_still_stores_its_runs():
    template = queued_run(node("a")).row
    columns = {str(field.column) for field in Execution._meta.concrete_fields} - NEWER

    run_id = _stored_again(template, sorted(columns))

    assert Execution.objects.get(run_id=run_id).parent_span_id == ""


def _stored_again(template: Execution, columns: list[str]) -> str:
    """Inserts a copy of the row as that process would: naming only the columns it knows."""
    run_id, key = "run-0123456789ab", uuid.uuid4()
    fresh = {"id": key if connection.vendor == "postgresql" else key.hex, "run_id": run_id}
    values = ", ".join("%s" if name in fresh else f'"{name}"' for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    table = Execution._meta.db_table
    given = [fresh[name] for name in columns if name in fresh]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} WHERE run_id = %s",
            [*given, template.run_id],
        )
    return run_id
