"""The verdict of a run over HTTP: described, bounded in queries, in words."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.apps.executions_rest.conftest import Caller, make_run, node, write_lines

pytestmark = pytest.mark.django_db


def failed_run(caller: Caller, *, failed: int = 1):
    """A run whose first step is healthy and whose others exited with 3."""
    statuses = ["healthy", *["failed"] * failed]
    topology = [node(f"s{number}", level=0) for number in range(len(statuses))]
    row = make_run(
        caller.workspace_id, topology=topology, statuses=statuses, status="Failed", failing=True
    )
    row.reason, row.reason_detail = "step_failed", "seed: exit_nonzero (exit code 3)"
    row.save()
    row.steps.filter(status="failed").update(
        reason="exit_nonzero", exit_code=3, detail="exit code 3",
        unit_started_at=row.started_at, finished_at=row.started_at,
    )  # fmt: skip
    return row


def test_a_failed_run_has_its_verdict_in_words(ada: Caller):
    row = failed_run(ada)
    step = row.steps.get(status="failed").step_id
    write_lines(row.run_id, step, ["loading", "no such file"])

    run = ada.get(f"executions/{row.run_id}").json()

    assert run["verdict"]["sentence"] == f"{step} exited with code 3"
    assert run["verdict"]["steps"][0]["lines"] == [
        {"number": 1, "text": "loading"},
        {"number": 2, "text": "no such file"},
    ]
    assert run["verdict"]["next"] == f"partita run logs {row.run_id} --source {step}"
    assert run["sentence"] == "seed exited with code 3", "a run that an older release ended"


def test_the_verdict_can_be_left_out(ada: Caller):
    row = failed_run(ada)

    run = ada.get(f"executions/{row.run_id}", {"omit": "verdict"}).json()

    assert "verdict" not in run
    assert "sentence" in run


def test_a_list_reads_nothing_of_the_steps_of_its_runs(ada: Caller):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert ada.get("executions", {"limit": 50}).status_code == 200
        return len(captured)

    failed_run(ada)
    queries()  # what is cached is cached
    of_one = queries()
    for _ in range(20):
        failed_run(ada, failed=3)

    assert queries() == of_one


def test_the_verdict_reads_the_logs_of_five_steps_at_most(ada: Caller):
    few, many = failed_run(ada, failed=5), failed_run(ada, failed=17)

    def queries(run_id: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            ada.get(f"executions/{run_id}")
        return len(captured)

    queries(few.run_id), queries(many.run_id)

    assert queries(many.run_id) == queries(few.run_id)
    verdict = ada.get(f"executions/{many.run_id}").json()["verdict"]
    assert (len(verdict["steps"]), verdict["moreSteps"]) == (5, 12)


def test_the_verdict_is_described_with_its_optional_members(admin: Caller):
    schemas = admin.get("schema").json()["components"]["schemas"]

    verdict = schemas["RunVerdict"]
    assert schemas["RunDetail"]["properties"]["verdict"] == {
        "$ref": "#/components/schemas/RunVerdict"
    }
    assert set(verdict["required"]) == {"sentence", "steps", "moreSteps", "healthySteps"}
    assert verdict["properties"]["steps"]["items"] == {"$ref": "#/components/schemas/StepVerdict"}
    assert schemas["StepVerdict"]["properties"]["lines"]["items"] == {
        "$ref": "#/components/schemas/VerdictLine"
    }
    assert schemas["VerdictLine"]["properties"]["number"] == {"type": "integer"}
    assert set(schemas["Cancellation"]["required"]) == {"reason"}
    assert "verdict" not in schemas["RunDetail"]["required"]
