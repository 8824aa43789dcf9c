from __future__ import annotations

import json
from datetime import timedelta

import pytest

from apps.executions.domain.events import OVERVIEW_NUDGE
from apps.executions.models import Execution, Step
from apps.executions.selectors import overview as overviews
from apps.executions.selectors.overview import OverviewCache, OverviewTaker
from apps.streams import api as streams
from kernel import clock
from tests.apps.executions_rest.conftest import make_run
from tests.apps.executions_rest.test_reading import SUMMARY

COUNTS = {
    "pendingSteps",
    "queuedSteps",
    "runningSteps",
    "healthySteps",
    "failedSteps",
    "skippedSteps",
    "canceledSteps",
}


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch, db):
    monkeypatch.setattr(overviews, "_overview_cache", None)


def test_an_overview_has_exactly_its_keys(ada):
    make_run(ada.workspace_id, statuses=["healthy", "running"])
    make_run(ada.workspace_id, status="Failed", reason="step_failed", finished_at=clock.now())

    body = ada.get("engine/overview").json()

    assert body.keys() == {"updatedAt", "summary", "executions"}
    assert body["summary"].keys() == COUNTS | {
        "totalExecutions",
        "queuedExecutions",
        "bootingExecutions",
        "healthyExecutions",
        "failedExecutions",
        "canceledExecutions",
        "totalSteps",
    }
    active, finished = sorted(body["executions"], key=lambda run: run["status"])
    assert active.keys() == SUMMARY | COUNTS | {"updatedAt", "progressRatio", "steps"}
    assert active["progressRatio"] == pytest.approx(0.6667)
    assert active["steps"][2] == {
        "id": "check",
        "name": "check",
        "kind": "test",
        "status": "pending",
        "level": 2,
        "dependsOn": ["seed", "db"],
    }
    assert "steps" not in finished


def test_the_two_routes_answer_alike(ada):
    make_run(ada.workspace_id, status="Healthy", finished_at=clock.now())

    one, two = ada.get("engine/overview").json(), ada.get("executions/overview").json()

    assert one | {"updatedAt": ""} == two | {"updatedAt": ""}


def test_a_change_is_seen_at_once_after_its_nudge(ada):
    row = make_run(ada.workspace_id, statuses=["running"])
    ada.get("engine/overview")
    Step.objects.filter(execution=row, step_id="db").update(status="healthy")
    Execution.objects.filter(pk=row.pk).update(version=row.version + 1)
    overviews.overview_cache()._changed.set()

    (run,) = ada.get("engine/overview").json()["executions"]

    assert (run["healthySteps"], run["steps"][0]["status"]) == (1, "healthy")


@pytest.mark.django_db(transaction=True)
def test_a_nudge_reaches_the_board(ada):
    overview_cache = overviews.overview_cache()
    overview_cache.entries()

    streams.nudge(OVERVIEW_NUDGE)

    assert overview_cache._changed.is_set()


def test_without_a_nudge_a_change_is_seen_a_moment_later(ada, monkeypatch):
    row = make_run(ada.workspace_id)
    overview_cache = OverviewCache()
    overview_cache.entries()
    Execution.objects.filter(pk=row.pk).update(version=7, status="Canceling")
    monkeypatch.setattr(overviews, "MAX_AGE_S", 0)

    assert overview_cache.entries()[row.run_id].row.status == "Canceling"


def test_what_was_deleted_or_is_a_day_old_is_gone(ada):
    day = timedelta(hours=24, seconds=1)
    make_run(ada.workspace_id, status="Healthy", finished_at=clock.now() - day)
    make_run(ada.workspace_id, deleted_at=clock.now())

    assert ada.get("engine/overview").json()["executions"] == []


def test_an_unchanged_overview_takes_two_queries(django_assert_num_queries, ada):
    for _ in range(5):
        make_run(ada.workspace_id, statuses=["running"])
    overview_cache = OverviewCache()
    overview_cache.entries()
    overview_cache._changed.set()

    with django_assert_num_queries(2):
        overview_cache.entries()


def test_reading_many_runs_anew_takes_few_queries(django_assert_max_num_queries, ada):
    for _ in range(10):
        make_run(ada.workspace_id, statuses=["running"])

    with django_assert_max_num_queries(6):
        assert len(OverviewCache().entries()) == 10


def test_the_clock_alone_makes_no_new_snapshot(ada, bob):
    row = make_run(ada.workspace_id)
    take = OverviewTaker(frozenset({ada.workspace_id}))
    first = take()
    make_run(bob.workspace_id)
    overviews.overview_cache()._changed.set()
    second = take()
    Execution.objects.filter(pk=row.pk).update(failing=True, version=9)
    overviews.overview_cache()._changed.set()
    third = take()

    assert first == second
    assert json.loads(third)["executions"][0]["failing"] is True
