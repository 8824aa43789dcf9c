"""Processes of two versions on one store: the older one registers without failing loops."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.agents import api, models
from apps.agents.selectors import as_agent
from tests.support.older_process import stored_by_older


@pytest.mark.store
@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor == "mongodb", reason="a document store has no columns")
def test_an_agent_that_an_older_process_registers_has_no_failing_loop() -> None:
    api.register(api.Registration(agent_id="new", incarnation="1", kind="runner"))

    stored_by_older(models.Agent.objects.get(), {"failing_loops"}, agent_id="old")

    assert api.get_agent("old").failing_loops == ()
    assert models.Agent.objects.get(agent_id="old").failing_loops == []


@pytest.mark.django_db
def test_a_document_without_the_field_is_an_agent_without_failing_loops() -> None:
    """MongoDB: what an older process stores has no such field, and is read as None."""
    api.register(api.Registration(agent_id="old", incarnation="1", kind="runner"))
    row = models.Agent.objects.get()
    row.failing_loops = None

    assert as_agent(row).failing_loops == ()
