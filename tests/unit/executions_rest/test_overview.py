from __future__ import annotations

from datetime import UTC, datetime, timedelta

from apps.executions.domain.runs import RunSummary
from apps.executions.models import Execution
from apps.executions.selectors import overview
from kernel.ids import new_uuid

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
MINE, THEIRS = new_uuid(), new_uuid()


def run(name, *, workspace=MINE, age=timedelta(minutes=1), finished=None, **counts):
    row = Execution(
        run_id=name,
        workspace_id=workspace,
        status="Booting" if finished is None else "Failed",
        started_at=NOW - age,
        updated_at=NOW,
        finished_at=None if finished is None else NOW - finished,
    )
    step = overview.OverviewStepBody(
        id="db", name="db", kind="service", status="running", level=0, dependsOn=[]
    )
    return overview.CachedRun(row, counts, [] if finished is not None else [step])


def names(runs):
    return [entry.row.run_id for entry in runs]


def test_a_scope_holds_only_its_own_runs():
    runs = [run("mine"), run("theirs", workspace=THEIRS)]

    assert names(overview.overview_runs(runs, workspaces={MINE}, now=NOW)) == ["mine"]
    assert len(overview.overview_runs(runs, workspaces=None, now=NOW)) == 2


def test_active_runs_stay_and_finished_ones_roll_out():
    old = timedelta(hours=25)
    runs = [
        run("active", age=old),
        run("gone", age=old, finished=timedelta(hours=24, seconds=1)),
        run("kept", age=old, finished=timedelta(hours=23)),
    ]

    assert names(overview.overview_runs(runs, workspaces={MINE}, now=NOW)) == ["kept", "active"]


def test_a_run_that_rolled_out_is_not_kept_in_memory(monkeypatch):
    """Invariant 38: memory that grows with the number of finished runs."""
    shown = {each.row.pk: each for each in (run("first"), run("second"))}
    monkeypatch.setattr(overview, "MAX_AGE_S", -1)
    monkeypatch.setattr(
        overview, "_marks", lambda _now: {pk: each.mark for pk, each in shown.items()}
    )
    monkeypatch.setattr(overview, "_read", lambda pks: {pk: shown[pk] for pk in pks})
    cache = overview.OverviewCache()

    assert cache.entries().keys() == {"first", "second"}
    shown.pop(next(iter(shown)))
    assert cache.entries().keys() == {"second"}


def test_of_the_finished_only_the_last_200_are_shown_newest_first():
    runs = [
        run(f"run-{n:03d}", age=timedelta(minutes=n), finished=timedelta(minutes=n))
        for n in range(300)
    ]

    shown = names(overview.overview_runs(runs, workspaces={MINE}, now=NOW))

    assert shown == [f"run-{n:03d}" for n in range(200)]


def summary(status: str) -> RunSummary:
    return {
        "id": "run-0123456789ab",
        "suiteId": "shop",
        "suiteTitle": "Shop",
        "profile": "",
        "backendId": "local-docker",
        "backend": "Docker",
        "backendKind": "local",
        "trigger": "Manual",
        "author": "",
        "workspaceId": "a",
        "status": status,
        "failing": False,
        "sentence": "",
        "duration": "00:00",
        "durationMs": 0,
        "startedAt": "2026-01-02T03:04:05.000Z",
    }


def test_progress_is_what_is_neither_pending_nor_queued():
    assert overview.progress({}) == 0
    assert overview.progress({"pending": 1, "queued": 1, "running": 1, "healthy": 1}) == 0.5
    assert overview.progress({"skipped": 3}) == 1


def test_the_document_counts_runs_and_steps_and_canceling_as_booting():
    items = [
        overview.item(run("x", pending=1, running=2), summary("Canceling")),
        overview.item(run("y", pending=2), summary("Booting")),
        overview.item(run("z", finished=timedelta(0), failed=1), summary("Failed")),
    ]

    document = overview.document(items, updated_at="t")

    assert document["summary"] == {
        "totalExecutions": 3,
        "queuedExecutions": 0,
        "bootingExecutions": 2,
        "healthyExecutions": 0,
        "failedExecutions": 1,
        "canceledExecutions": 0,
        "totalSteps": 6,
        "pendingSteps": 3,
        "queuedSteps": 0,
        "runningSteps": 2,
        "healthySteps": 0,
        "failedSteps": 1,
        "skippedSteps": 0,
        "canceledSteps": 0,
    }
    assert document["executions"][0]["steps"][0]["dependsOn"] == []
    assert "steps" not in document["executions"][2]
