from __future__ import annotations

from datetime import timedelta

import pytest

from apps.accounts.api import Role
from apps.executions import api
from apps.executions.models import Execution
from kernel import clock
from tests.apps.executions_rest.conftest import make_artifact, make_run
from tests.support.api_clients import problem
from tests.support.people import principal_of

BELOW = [
    ("get", ""),
    ("delete", ""),
    ("post", "/cancel"),
    ("post", "/rerun"),
    ("get", "/events"),
    ("get", "/logs"),
    ("get", "/logs/download"),
    ("get", "/logs/search?q=x"),
    ("get", "/artifacts/check-report-raw"),
    ("get", "/junit"),
    ("get", "/since-green"),
    ("get", "/repeats"),
    ("post", "/repeats"),
    ("get", "/repeats/repeat-000000000000"),
    ("post", "/repeats/repeat-000000000000/cancel"),
    ("get", "/repeats/repeat-000000000000/logs"),
    ("get", "/repeats/repeat-000000000000/artifacts/x"),
    ("get", "/timeline"),
    ("get", "/artifacts/archive"),
    ("get", "/artifacts/check-report-raw/image"),
    ("get", "/logs/at?ms=0"),
]
NAMELESS = ("requestId", "instance")


def body_of(answer):
    document = answer.json()
    return {key: value for key, value in document.items() if key not in NAMELESS}


@pytest.mark.parametrize(("method", "path"), BELOW)
def test_a_foreign_run_answers_like_an_unknown_one(ada, bob, method, path):
    """Invariant 16."""
    row = make_run(bob.workspace_id)
    make_artifact(row, b"secret")

    foreign = getattr(ada, method)(f"executions/{row.run_id}{path}")
    unknown = getattr(ada, method)(f"executions/run-000000000000{path}")

    assert problem(foreign) == (404, "execution_not_found")
    assert body_of(foreign) == body_of(unknown)
    assert Execution.objects.get(pk=row.pk).status == "Booting"


@pytest.mark.parametrize(("method", "path"), BELOW)
def test_a_deleted_run_is_gone_for_everybody(ada, admin, method, path):
    row = make_run(ada.workspace_id, deleted_at=clock.now())

    for caller in (ada, admin):
        answer = getattr(caller, method)(f"executions/{row.run_id}{path}")
        assert problem(answer) == (404, "execution_not_found")


@pytest.mark.parametrize(("method", "path"), BELOW)
def test_nobody_sees_a_run_without_a_session(ada, method, path):
    row = make_run(ada.workspace_id)
    ada.token = "nonsense"

    assert getattr(ada, method)(f"executions/{row.run_id}{path}").status_code == 401


def test_members_list_and_count_their_own_runs_and_admins_all(ada, bob, admin):
    """Invariant 16: counts included."""
    mine = make_run(ada.workspace_id)
    theirs = make_run(bob.workspace_id)

    def seen(caller, path, **query):
        body = caller.get(path, query).json()
        return {run["id"] for run in body["executions"]}, body

    for path in ("executions", "executions/overview", "engine/overview"):
        assert seen(ada, path)[0] == {mine.run_id}
        assert seen(admin, path)[0] == {mine.run_id, theirs.run_id}
        assert seen(admin, path, workspaceId=str(bob.workspace_id))[0] == {theirs.run_id}
        assert seen(ada, path, workspaceId=str(bob.workspace_id))[0] == set()
    assert seen(ada, "executions")[1]["total"] == 1
    assert seen(ada, "engine/overview")[1]["summary"]["totalExecutions"] == 1


def test_the_recent_runs_of_a_suite_are_those_of_the_reader(ada, bob):
    now = clock.now()
    reader = principal_of(ada.user, role=Role.VIEWER)
    runs = [
        make_run(ada.workspace_id, started_at=now - timedelta(minutes=age)) for age in (3, 1, 2)
    ]
    make_run(ada.workspace_id, suite_id="other")
    make_run(ada.workspace_id, deleted_at=now)
    make_run(bob.workspace_id)

    shown = api.suite_runs(reader, "shop", limit=2)

    assert [run["id"] for run in shown] == [runs[1].run_id, runs[2].run_id]


def test_an_admin_reads_any_run(ada, admin):
    row = make_run(ada.workspace_id)

    assert admin.get(f"executions/{row.run_id}").json()["id"] == row.run_id
