"""Who may open a shell, where, and how many (reference: control-plane 11.7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.operations.models import AuditRecord
from apps.operations.services.audit_trail import trail
from apps.shells.models import ShellSession
from apps.shells.services import endings
from apps.streams.api import last_ids
from kernel import clock
from tests.apps.executions_rest.conftest import Caller, node
from tests.apps.shells.conftest import keep_run, live_run
from tests.support.api_clients import problem

pytestmark = pytest.mark.django_db(transaction=True)


def open_shell(caller: Caller, run_id: str, step: str = "seed", **more: Any) -> Any:
    return caller.post(f"executions/{run_id}/shells", {"stepId": step, **more})


def test_any_step_of_a_kept_run_can_be_entered(ada: Caller):
    run = keep_run(ada)

    answer = open_shell(ada, run.run_id, command=["ls", "-l"], columns=120, rows=40)

    body = answer.json()
    assert answer.status_code == 201
    assert answer["Location"] == f"/api/v1/executions/{run.run_id}/shells/{body['shellId']}"
    assert body["state"] == "opening"
    assert body["socket"] == f"/ws/shells/{body['shellId']}"
    assert (body["openedBy"], body["isYours"]) == ("Ada (ada@example.org)", True)
    row = ShellSession.objects.get()
    assert (row.agent_id, row.command) == ("runner:a", ["ls", "-l"])
    assert (row.columns, row.rows) == (120, 40)


def test_a_service_that_runs_can_be_entered_while_its_run_goes_on(ada: Caller):
    run = live_run(ada)

    assert open_shell(ada, run.run_id, "db").status_code == 201
    refused = open_shell(ada, run.run_id, "seed")

    assert problem(refused) == (409, "not_kept")
    assert "a service that runs" in refused.json()["detail"]


def test_what_left_nothing_to_enter_is_refused_with_what_to_do(ada: Caller):
    kept = keep_run(ada)
    removed = keep_run(ada, keep_alive_until=None, keep_alive_ms=0)
    mock = keep_run(ada, topology=[node("api", kind="mock")], statuses=("healthy",))
    away = keep_run(ada, backend_kind="remote-agent")
    answers = {
        "gone": open_shell(ada, removed.run_id),
        "never started": open_shell(ada, kept.run_id, "check"),
        "mock": open_shell(ada, mock.run_id, "api"),
        "worker": open_shell(ada, away.run_id),
    }

    assert {name: problem(each) for name, each in answers.items()} == {
        "gone": (409, "not_kept"),
        "never started": (409, "shell_unavailable"),
        "mock": (409, "shell_unavailable"),
        "worker": (409, "shell_unavailable"),
    }
    assert "--keep 30m" in answers["gone"].json()["detail"]
    assert "docker exec -it" in answers["worker"].json()["detail"]
    misspelled = open_shell(ada, kept.run_id, "sed")
    assert problem(misspelled) == (404, "not_found")
    assert misspelled.json()["detail"] == "the run has no step 'sed'; did you mean seed?"
    assert not ShellSession.objects.exists()


def test_foreign_workspaces_and_viewers_are_refused(ada: Caller, bob: Caller, admin: Caller):
    """Invariant 16."""
    run = keep_run(ada)
    path = f"executions/{run.run_id}/shells"
    opened = open_shell(ada, run.run_id).json()["shellId"]

    assert problem(open_shell(bob, run.run_id)) == (404, "execution_not_found")
    assert problem(bob.get(path)) == (404, "execution_not_found")
    assert problem(bob.delete(f"{path}/{opened}")) == (404, "execution_not_found")
    assert open_shell(admin, run.run_id).status_code == 201
    listed = admin.get(path).json()["shells"]
    assert [each["isYours"] for each in listed] == [True, False]
    for unknown in ("nothing", "00000000-0000-0000-0000-000000000000"):
        assert problem(ada.delete(f"{path}/{unknown}")) == (404, "shell_not_found")
    assert admin.delete(f"{path}/{opened}").status_code == 204
    assert ShellSession.objects.get(pk=opened).end_detail.startswith("someone ended the shell (")


def test_a_viewer_opens_no_shell_and_sees_who_did(ada: Caller, viewer: Caller):
    run = keep_run(ada)
    opened = open_shell(ada, run.run_id).json()["shellId"]
    path = f"executions/{run.run_id}/shells"

    assert problem(open_shell(viewer, run.run_id)) == (403, "role_required")
    assert problem(viewer.delete(f"{path}/{opened}")) == (403, "role_required")
    assert viewer.get(path).json()["shells"][0]["openedBy"] == "Ada (ada@example.org)"


def test_the_setting_closes_shells(ada: Caller, admin: Caller, settings: Any):
    theirs = keep_run(ada, owner_id=admin.user.pk)
    own = keep_run(ada)

    settings.SHELL_ACCESS = "owner"
    assert problem(open_shell(ada, theirs.run_id)) == (403, "shells_off")
    assert open_shell(ada, own.run_id).status_code == 201
    assert open_shell(admin, own.run_id).status_code == 201
    settings.SHELL_ACCESS = "off"
    assert problem(open_shell(admin, own.run_id)) == (403, "shells_off")


def test_a_workspace_has_so_many_shells_at_once(ada: Caller, bob: Caller, settings: Any):
    settings.SHELL_MAX = 2
    run, theirs = keep_run(ada), keep_run(bob)
    first = open_shell(ada, run.run_id).json()["shellId"]
    open_shell(ada, run.run_id)

    refused = open_shell(ada, run.run_id)
    assert problem(refused) == (429, "too_many_shells")
    assert open_shell(bob, theirs.run_id).status_code == 201
    ada.delete(f"executions/{run.run_id}/shells/{first}")
    assert open_shell(ada, run.run_id).status_code == 201


def test_a_session_that_no_runner_opens_ends_and_frees_its_place(ada: Caller, settings: Any):
    settings.SHELL_MAX = 1
    run = keep_run(ada)
    first = open_shell(ada, run.run_id).json()["shellId"]
    ShellSession.objects.update(lease_expires_at=clock.now() - timedelta(seconds=1))

    assert open_shell(ada, run.run_id).status_code == 201
    row = ShellSession.objects.get(pk=first)
    assert (row.state, row.end_code) == ("ended", "not_opened")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/stepId"),
        ({"stepId": "seed", "columns": 0}, "/columns"),
        ({"stepId": "seed", "rows": 1001}, "/rows"),
        ({"stepId": "seed", "command": ["x"] * 65}, "/command"),
        ({"stepId": "seed", "command": "ls"}, "/command"),
        ({"stepId": "seed", "shell": "zsh"}, "/shell"),
    ],
)
def test_bad_input_names_the_field(ada: Caller, body: dict[str, Any], pointer: str):
    run = keep_run(ada)

    answer = ada.post(f"executions/{run.run_id}/shells", body)

    assert problem(answer) == (400, "validation_failed")
    assert answer.json()["errors"][0]["pointer"].startswith(pointer)


def test_opening_and_ending_are_audited(ada: Caller, settings: Any):
    settings.AUDIT_ROWS = True
    run = keep_run(ada)
    opened = open_shell(ada, run.run_id).json()["shellId"]
    ada.delete(f"executions/{run.run_id}/shells/{opened}")
    trail.close()

    path = f"/api/v1/executions/{run.run_id}/shells/{opened}"
    rows = AuditRecord.objects.filter(path=path, route="shell").order_by("time")
    assert [row.method for row in rows] == ["SHELL-OPEN", "SHELL-END"]
    assert {(row.user_id, row.remote_addr) for row in rows} == {(str(ada.user.pk), "127.0.0.1")}


def test_what_was_written_is_deleted_an_hour_after_the_end(ada: Caller):
    run = keep_run(ada)
    opened = open_shell(ada, run.run_id).json()["shellId"]
    ada.delete(f"executions/{run.run_id}/shells/{opened}")
    topics = [f"shell:{opened}:output", f"shell:{opened}:input"]

    assert list(last_ids(topics)) == topics[:1]  # what was typed is gone at once
    endings.remove_old_sessions()
    assert last_ids(topics)
    ShellSession.objects.update(ended_at=clock.now() - timedelta(minutes=61))
    endings.remove_old_sessions()
    assert not last_ids(topics)
    assert ada.get(f"executions/{run.run_id}/shells").json()["shells"][0]["state"] == "ended"


def test_sessions_go_with_their_run(ada: Caller):
    run, other = keep_run(ada), keep_run(ada)
    for each in (run, other):
        opened = open_shell(ada, each.run_id).json()["shellId"]
        ada.delete(f"executions/{each.run_id}/shells/{opened}")
    run.deleted_at = clock.now()
    run.save()

    endings.remove_sessions_of_deleted_runs()

    assert [row.run_id for row in ShellSession.objects.all()] == [other.run_id]
