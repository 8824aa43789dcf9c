"""The last results of many suites, read in few queries."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.executions.api import newest_by_suite
from apps.executions.selectors import suite_results
from kernel import clock
from tests.apps.executions_rest.conftest import make_run
from tests.support.people import somebody

pytestmark = pytest.mark.django_db(transaction=True)


def past_run(workspace_id: UUID, suite_id: str, minutes: int, status: str = "Healthy") -> str:
    then = clock.now() - timedelta(minutes=minutes)
    row = make_run(
        workspace_id, suite_id=suite_id, status=status, started_at=then, finished_at=then
    )
    return row.run_id


def test_the_newest_runs_of_each_suite_come_newest_first_and_are_ones_own():
    who = somebody()
    shop = [past_run(who.workspace_id, "shop", minutes) for minutes in (5, 1, 3)]
    past_run(who.workspace_id, "hello", 2)
    past_run(uuid4(), "shop", 0)

    found = newest_by_suite(who, ["shop", "hello", "new"], count=2)

    assert [run["id"] for run in found["shop"]] == [shop[1], shop[2]]
    assert [run["author"] for run in found["shop"]] == ["Ada", "Ada"]
    assert len(found["hello"]) == 1
    assert "new" not in found


def test_a_status_is_looked_for_behind_newer_runs():
    who = somebody()
    failed = past_run(who.workspace_id, "shop", 9, "Failed")
    past_run(who.workspace_id, "shop", 1)

    found = newest_by_suite(who, ["shop"], count=1, statuses=frozenset({"Failed"}))

    assert [run["id"] for run in found["shop"]] == [failed]


def test_twenty_suites_need_no_more_queries_than_two():
    who = somebody()
    names = [f"suite-{number}" for number in range(20)]
    for name in names:
        past_run(who.workspace_id, name, 1)

    counts = []
    for some in (names[:2], names):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert len(newest_by_suite(who, some, count=5)) == len(some)
        counts.append(len(queries))

    assert counts[0] == counts[1] <= 3


def test_a_suite_that_others_crowd_out_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(suite_results, "RUNS_READ", 4)
    who = somebody()
    for minutes in range(6):
        past_run(who.workspace_id, "busy", minutes)
    rare = past_run(who.workspace_id, "rare", 99)

    found = newest_by_suite(who, ["busy", "rare"], count=3)

    assert [run["id"] for run in found["rare"]] == [rare]
    assert len(found["busy"]) == 3
