"""Empty the store after a test that commits: only the tables that have rows.

Django's flush looks up its command, empties every table and tells each app of it. Content types
stay: they are the same for every test, and a server that outlives one remembers their keys.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import connections, transaction
from django.test import TransactionTestCase

_Case: Any = TransactionTestCase  # its stubs lack what is private
_flush = _Case._fixture_teardown


def empty_quickly() -> None:
    """Let tests that commit empty their tables this way on SQLite, which has one writer at a time.

    Elsewhere a row that a thread of the test has not committed yet would stay: TRUNCATE waits.
    """
    _Case._fixture_teardown = _empty


def _empty(case: Any) -> None:
    if case.available_apps is not None or case.serialized_rollback:
        _flush(case)
        return
    names = case._databases_names(include_mirrors=False)
    if any(connections[name].vendor != "sqlite" for name in names):
        _flush(case)
        return
    for name in names:
        _empty_database(connections[name], name)


def _empty_database(connection: Any, name: str) -> None:
    """Foreign keys are deferred to the end of a transaction: the order does not matter."""
    with transaction.atomic(using=name), connection.cursor() as cursor:
        cursor.execute(_tables_with_rows(name))
        for (table,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")


@cache
def _tables_with_rows(name: str) -> str:
    """Return the question which tables have rows, in one statement."""
    connection = connections[name]
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    kept = ContentType._meta.db_table
    quoted = [(table, connection.ops.quote_name(table)) for table in tables if table != kept]
    return " UNION ALL ".join(
        f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {quote})" for table, quote in quoted
    )
