from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from apps.executions.models import Execution, Step
from kernel import clock
from tests.apps.executions_rest.conftest import make_artifact, make_run, write_event, write_lines
from tests.support.api_clients import problem

SUMMARY = {
    "id",
    "suiteId",
    "suiteTitle",
    "profile",
    "backendId",
    "backend",
    "backendKind",
    "author",
    "trigger",
    "status",
    "failing",
    "sentence",
    "duration",
    "durationMs",
    "startedAt",
    "workspaceId",
}
DETAIL = SUMMARY | {
    "updatedAt",
    "suite",
    "author",
    "commit",
    "branch",
    "message",
    "steps",
    "verdict",
    "events",
    "artifacts",
    "attempts",
    "lastEventId",
    "lastLogId",
}
STEP = {
    "id",
    "name",
    "kind",
    "variant",
    "level",
    "dependsOn",
    "onFailure",
    "continueOnFailure",
    "status",
    "attempt",
    "waitingOn",
    "duration",
}
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")


def times_in(document, key=""):
    if isinstance(document, dict):
        return [t for name, value in document.items() for t in times_in(value, name)]
    if isinstance(document, list):
        return [t for value in document for t in times_in(value, key)]
    return [document] if key.endswith("At") or key == "time" else []


def test_a_summary_has_exactly_its_keys(ada):
    make_run(ada.workspace_id)

    body = ada.get("executions").json()

    assert body.keys() == {"executions", "total"}
    (run,) = body["executions"]
    assert run.keys() == SUMMARY
    assert "01:05" <= run["duration"] < "02:00"  # it goes on while this machine is busy
    assert body["total"] == 1


def test_a_detail_has_exactly_its_keys_and_true_times(ada):
    row = make_run(ada.workspace_id, statuses=["healthy"])
    write_event(row.run_id, "db", "healthy", "healthy")

    answer = ada.get(f"executions/{row.run_id}")

    body = answer.json()
    assert body.keys() == DETAIL
    assert all(step.keys() == STEP for step in body["steps"])
    assert body["suite"]["sourceFiles"] == [
        {"path": "suite.star", "language": "starlark", "size": 3}
    ]
    assert times_in(body)
    assert all(TIME.match(time) for time in times_in(body))


def test_no_answer_holds_null(ada):
    """Invariant 40."""
    row = make_run(ada.workspace_id, status="Queued")
    make_artifact(row, b"\xff\x00")

    for path in ("executions", f"executions/{row.run_id}", "executions/overview"):
        assert b"null" not in ada.get(path).content


def test_a_detail_says_what_its_steps_wait_for(ada):
    row = make_run(ada.workspace_id, statuses=["healthy", "running"])

    steps = ada.get(f"executions/{row.run_id}").json()["steps"]

    assert [step["waitingOn"] for step in steps] == [[], [], ["seed"]]
    assert steps[2]["dependsOn"] == ["seed", "db"]


def test_a_failed_step_tells_why(ada):
    row = make_run(ada.workspace_id, statuses=["failed", "skipped"])
    start = clock.now() - timedelta(seconds=61)
    Step.objects.filter(execution=row, step_id="db").update(
        reason="exit_nonzero",
        detail="exit code 3",
        exit_code=3,
        attempt=2,
        agent_id="runner-1",
        started_at=start,
        finished_at=start + timedelta(seconds=61),
        cpu_percent=12.5,
    )
    cause = [{"stepId": "db", "reason": "exit_nonzero", "exitCode": 3}]
    Step.objects.filter(execution=row, step_id="seed").update(
        reason="dependency_failed", cause=cause
    )

    failed, skipped, _ = ada.get(f"executions/{row.run_id}").json()["steps"]

    assert failed.keys() == STEP | {
        "reason",
        "detail",
        "exitCode",
        "agentId",
        "startedAt",
        "finishedAt",
        "durationMs",
        "usage",
    }
    assert (failed["duration"], failed["durationMs"]) == ("01:01", 61_000)
    assert failed["usage"] == {"cpuPercent": 12.5}
    assert skipped["cause"] == cause


def test_event_n_stands_at_place_n_minus_1(ada):
    row = make_run(ada.workspace_id)
    for number in range(3):
        write_event(row.run_id, "db", f"e{number}", "running")
    write_lines(row.run_id, "db", ["one", "two"])

    body = ada.get(f"executions/{row.run_id}").json()

    assert [event["id"] for event in body["events"]] == ["db-e0", "db-e1", "db-e2"]
    assert (body["lastEventId"], body["lastLogId"]) == (3, 2)


@pytest.mark.parametrize("part", ["suite", "events", "steps", "artifacts", "verdict"])
def test_omit_drops_parts(ada, part):
    row = make_run(ada.workspace_id)

    body = ada.get(f"executions/{row.run_id}", {"omit": part}).json()

    assert body.keys() == DETAIL - {part}


def test_an_unchanged_detail_is_not_sent_again(ada):
    row = make_run(ada.workspace_id, status="Healthy", finished_at=clock.now())

    first = ada.get(f"executions/{row.run_id}")
    again = ada.get(f"executions/{row.run_id}", **{"If-None-Match": first["ETag"]})
    Execution.objects.filter(pk=row.pk).update(message="changed")
    changed = ada.get(f"executions/{row.run_id}", **{"If-None-Match": first["ETag"]})

    assert first["ETag"].startswith('"')
    assert (again.status_code, again.content) == (304, b"")
    assert changed.status_code == 200
    assert changed["ETag"] != first["ETag"]


def test_queued_runs_know_their_place_over_all_workspaces(ada, bob):
    now = clock.now()
    ages = {"first": 30, "second": 20}
    runs = {
        name: make_run(ada.workspace_id, status="Queued", started_at=now - timedelta(seconds=age))
        for name, age in ages.items()
    }
    make_run(bob.workspace_id, status="Queued", started_at=now - timedelta(seconds=25))

    listed = {run["id"]: run for run in ada.get("executions").json()["executions"]}

    assert listed[runs["first"].run_id]["queuePosition"] == 1
    assert listed[runs["second"].run_id]["queuePosition"] == 3


def test_a_list_takes_the_same_number_of_queries_whatever_its_length(
    ada, django_assert_max_num_queries
):
    for _ in range(20):
        make_run(ada.workspace_id, status="Queued")

    with django_assert_max_num_queries(10):
        assert len(ada.get("executions").json()["executions"]) == 20


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"status": "Failed,Canceled"}, {"failed"}),
        ({"suiteId": "hello"}, {"hello"}),
        ({"profile": "ci.yaml"}, {"ci"}),
        ({"backendId": "edge"}, {"edge"}),
        ({"trigger": "CI"}, {"triggered"}),
        ({"q": "BUG-7"}, {"message"}),
        ({"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00+00:00"}, {"old"}),
        ({"suiteId": "nothing"}, set()),
    ],
)
def test_filters_narrow_the_list_and_its_total(ada, query, found):
    old = clock.parse_rfc3339("2026-01-01T10:00:00Z")
    different: dict[str, dict[str, Any]] = {
        "failed": {"status": "Failed"},
        "hello": {"suite_id": "hello"},
        "ci": {"profile": "ci.yaml"},
        "edge": {"backend_id": "edge"},
        "triggered": {"trigger": "CI"},
        "message": {"message": "fixes bug-7"},
        "old": {"started_at": old},
    }
    names = {
        make_run(ada.workspace_id, **fields).run_id: name for name, fields in different.items()
    }

    body = ada.get("executions", query).json()

    assert {names[run["id"]] for run in body["executions"]} == found
    assert body["total"] == len(found)


def test_pages_are_stable_while_runs_come_in(ada):
    start = clock.now()
    runs = [
        make_run(ada.workspace_id, started_at=start - timedelta(seconds=n // 3)) for n in range(10)
    ]
    seen, query, body = [], {"limit": 3}, {}
    for _ in range(4):
        body = ada.get("executions", query).json()
        seen += [run["id"] for run in body["executions"]]
        make_run(ada.workspace_id, started_at=start + timedelta(seconds=9))
        query = {"limit": 3, "cursor": body.get("nextCursor", "")}

    assert sorted(seen) == sorted(run.run_id for run in runs)
    assert "nextCursor" not in body


def test_a_cursor_belongs_to_its_filters_and_its_route(ada):
    for _ in range(3):
        make_run(ada.workspace_id)
    cursor = ada.get("executions", {"limit": 1}).json()["nextCursor"]

    for query in (
        {"cursor": cursor, "status": "Booting"},
        {"cursor": cursor[:-1]},
        {"cursor": "\x00"},
        {"cursor": ""},
    ):
        assert problem(ada.get("executions", query)) == (400, "invalid_cursor")


def test_artifacts_are_listed_with_the_beginning_of_texts(ada):
    row = make_run(ada.workspace_id)
    make_artifact(row, b"hello", artifact_id="a", name="greeting")
    make_artifact(row, b"x" * 70_000, artifact_id="b")
    make_artifact(row, b"\xff\xfe", artifact_id="c")
    counts = {"total": 1, "passed": 1, "failures": 0, "errors": 0, "skipped": 0}
    make_artifact(row, b"<testsuite/>", artifact_id="d", format="junit", test_summary=counts)

    text, long, binary, report = ada.get(f"executions/{row.run_id}").json()["artifacts"]

    assert (text["content"], text["name"]) == ("hello", "greeting")
    assert text["href"] == f"/api/v1/executions/{row.run_id}/artifacts/a"
    assert (len(long["content"]), long["truncated"]) == (65_536, True)
    assert "content" not in binary
    assert report["testSummary"] == counts
    assert json.dumps(text)
