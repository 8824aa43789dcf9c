"""Processes of two versions on one store: the older one does not know the newer columns."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.executions.models import Execution
from tests.apps.executions.runs import node, queued_run
from tests.support.older_process import stored_by_older


@pytest.mark.store
@pytest.mark.skipif(connection.vendor == "mongodb", reason="a document store has no columns")
def test_a_process_that_is_older_than_a_column_still_stores_its_runs():
    template = queued_run(node("a")).row

    key = stored_by_older(template, {"parent_span_id"}, run_id="run-0123456789ab")

    stored = Execution.objects.get(id=key)
    assert (stored.run_id, stored.parent_span_id) == ("run-0123456789ab", "")
