"""POST …/rerun and what a run says of its attempts, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from apps.accounts import selectors as accounts_memory
from apps.accounts.models import LimitHit, Membership
from apps.executions.models import Execution
from apps.executions.rest import views
from tests.apps.executions.runs import Run, Worker, booted_run, node, profile
from tests.apps.executions_rest.conftest import Caller
from tests.support.api_clients import problem
from tests.support.people import somebody

pytestmark = pytest.mark.django_db(transaction=True)
NODES = (node("a"), node("b", after=["a"]), node("c"))


@pytest.fixture(autouse=True)
def _no_settings_file(settings, tmp_path):
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "none.yaml"


@pytest.fixture
def worker(db) -> Worker:
    return Worker()


def end_steps(worker: Worker, *wrong: str) -> None:
    while claimed := worker.claim():
        for step in claimed:
            (worker.fail if step in wrong else worker.end)(step)


@pytest.fixture
def failed(ada: Caller, worker: Worker) -> Run:
    made = booted_run(
        *NODES,
        principal=somebody(workspace_id=ada.workspace_id),
        with_profile=profile(file_name="ci.yaml"),
    )
    end_steps(worker, "b")
    assert made.status == "Failed"
    return made


def rerun(caller: Caller, run: Run, body: Any = None, **headers: str) -> Any:
    return caller.post(f"executions/{run.id}/rerun", body, **headers)


def test_a_rerun_answers_its_summary_and_where_it_is(ada: Caller, failed: Run):
    answer = rerun(ada, failed, {"scope": "failed"})

    body = answer.json()
    assert answer.status_code == 201
    assert answer["Location"] == f"/api/v1/executions/{body['id']}"
    assert (body["rerunOf"], body["attempt"], body["trigger"]) == (failed.id, 2, "Rerun")
    assert (body["profile"], body["author"]) == ("ci.yaml", "Ada")
    detail = ada.get(f"executions/{body['id']}").json()
    assert {step["id"]: step.get("reason") for step in detail["steps"]} == {
        "a": None, "b": None, "c": "not_selected",
    }  # fmt: skip
    assert [(each["number"], each["id"]) for each in detail["attempts"]] == [
        (1, failed.id), (2, body["id"]),
    ]  # fmt: skip
    assert "attempts" not in ada.get(f"executions/{failed.id}", {"omit": "attempts"}).json()
    listed = ada.get("executions", {"trigger": "Rerun"}).json()["executions"]
    assert [run["id"] for run in listed] == [body["id"]]


@pytest.mark.parametrize("body", [None, {"scope": None, "step": None, "dryRun": None}])
def test_all_steps_run_again_by_default(ada: Caller, failed: Run, body: Any):
    created = rerun(ada, failed, body).json()

    steps = ada.get(f"executions/{created['id']}").json()["steps"]
    assert {step["status"] for step in steps} == {"pending"}


def test_a_dry_run_answers_the_plan_and_starts_nothing(ada: Caller, admin: Caller, failed: Run):
    answer = rerun(ada, failed, {"scope": "step", "step": "b", "dryRun": True})

    plan = answer.json()
    assert answer.status_code == 200
    assert plan["rerunOf"] == failed.id
    assert {step["id"]: (step["reason"], step["text"]) for step in plan["steps"]} == {
        "a": ("needed_by", "needed by b"),
        "b": ("chosen", "chosen"),
    }
    assert [(step["id"], step["reason"]) for step in plan["notSelected"]] == [("c", "not_chosen")]
    assert Execution.objects.count() == 1
    described = admin.get("schema").json()
    operation = described["paths"]["/api/v1/executions/{executionId}/rerun"]["post"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    whole = schema | {"components": described["components"], "unevaluatedProperties": False}
    Draft202012Validator(whole).validate(plan)


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({"scope": "some"}, "/scope", "invalid_value"),
        ({"scope": "step"}, "/step", "required"),
        ({"scope": "step", "step": "bb"}, "/step", "invalid_value"),
        ({"step": "b"}, "/step", "invalid_value"),
        ({"scope": "failed", "steps": ["b"]}, "/steps", "unknown_field"),
        ({"dryRun": "perhaps"}, "/dryRun", "wrong_type"),
        ({"step": "x" * 301, "scope": "step"}, "/step", "invalid_value"),
    ],
)
def test_a_body_that_makes_no_sense_is_refused_at_its_place(
    ada: Caller, failed: Run, body: Any, pointer: str, code: str
):
    refused = rerun(ada, failed, body)

    assert problem(refused) == (400, "validation_failed")
    assert [(each["pointer"], each["code"]) for each in refused.json()["errors"]] == [
        (pointer, code)
    ]


def test_refusals_have_codes(ada: Caller, worker: Worker, failed: Run):
    run = booted_run(*NODES, principal=somebody(workspace_id=ada.workspace_id))

    assert problem(rerun(ada, run)) == (409, "execution_active")
    end_steps(worker)
    assert problem(rerun(ada, run, {"scope": "failed"})) == (409, "nothing_to_rerun")
    assert problem(rerun(ada, run, {"scope": "failed", "dryRun": True})) == (
        409, "nothing_to_rerun",
    )  # fmt: skip
    # this run kept no files, so no other profile can be read from its snapshot
    assert problem(rerun(ada, failed, {"profile": "us.yaml"})) == (409, "snapshot_differs")


def test_runners_run_again_and_viewers_do_not(ada: Caller, failed: Run):
    for role, status in (("viewer", 403), ("runner", 201)):
        Membership.objects.update(role=role)
        accounts_memory._cache.clear()
        for body in ({}, {"dryRun": True}):
            answer = rerun(ada, failed, body)
            expected = 200 if status == 201 and body else status
            assert answer.status_code == expected
            assert status != 403 or problem(answer) == (403, "role_required")


def test_a_run_of_another_workspace_answers_like_an_unknown_one(bob: Caller, failed: Run):
    """Invariant 16."""
    for body in ({}, {"dryRun": True}, {"scope": "some"}):
        assert problem(rerun(bob, failed, body)) == (404, "execution_not_found")


def test_a_key_makes_one_run(ada: Caller, failed: Run):
    """Invariant 32."""
    answers = [rerun(ada, failed, {}, **{"Idempotency-Key": "once"}) for _ in range(2)]

    assert answers[0].json() == answers[1].json()
    assert answers[1]["Idempotent-Replayed"] == "true"
    other = rerun(ada, failed, {"scope": "failed"}, **{"Idempotency-Key": "once"})
    assert problem(other) == (422, "idempotency_key_reused")
    assert Execution.objects.count() == 2


def test_reruns_count_as_launches_and_dry_runs_do_not(
    ada: Caller, failed: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(views, "LAUNCHES_A_MINUTE", 2)
    hits = LimitHit.objects.count()
    for _ in range(3):
        assert rerun(ada, failed, {"dryRun": True}).status_code == 200
    assert LimitHit.objects.count() == hits

    assert [rerun(ada, failed).status_code for _ in range(3)] == [201, 201, 429]


def test_what_differs_since_the_last_healthy_run(ada: Caller, worker: Worker, failed: Run):
    nothing = ada.get(f"executions/{failed.id}/since-green").json()
    assert nothing["differences"] == []
    green = ada.post(f"executions/{failed.id}/rerun").json()["id"]
    Execution.objects.filter(run_id=green).update(status="Healthy")
    again = rerun(ada, failed).json()["id"]
    Execution.objects.filter(run_id=again).update(status="Failed", commit="def")

    body = ada.get(f"executions/{again}/since-green").json()

    assert body["green"]["id"] == green
    assert body["differences"] == [
        {"kind": "commit", "name": "", "change": "added", "after": "def"}
    ]
