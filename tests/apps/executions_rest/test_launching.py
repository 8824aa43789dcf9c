from __future__ import annotations

import pytest

from apps.accounts.models import LimitHit
from apps.agents.api import Registration, register
from apps.executions.models import Execution
from apps.platform_settings.api import backends
from kernel import clock
from tests.apps.executions_rest.conftest import make_run
from tests.apps.executions_rest.test_reading import DETAIL, SUMMARY
from tests.support.api_clients import problem

SUITE = {
    "id",
    "title",
    "repository",
    "suiteStar",
    "profiles",
    "folders",
    "sourceFiles",
    "topology",
    "resolvedDependencies",
    "apiSurfaces",
}
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_settings_file(settings, tmp_path):
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "none.yaml"


@pytest.fixture
def runner(db):
    """A runner that serves every backend."""
    return register(
        Registration(
            agent_id="runner-1",
            kind="runner",
            incarnation="i1",
            backends=tuple(backend.backend_id for backend in backends()),
        )
    )


def test_launch_suites_name_profiles_and_backends(ada, runner):
    body = ada.get("executions/launch-suites").json()

    assert body.keys() == {"suites", "total"}
    hello = next(suite for suite in body["suites"] if suite["id"] == "hello")
    assert hello.keys() == {
        "id",
        "title",
        "repository",
        "description",
        "provider",
        "status",
        "profiles",
        "backends",
    }
    for profile in hello["profiles"]:
        assert profile.keys() == {"fileName", "label", "description", "default"}
    (backend,) = hello["backends"]
    assert backend.keys() == {
        *("id", "label", "kind", "description", "default", "available", "waitsFor"),
    }  # fmt: skip
    assert (backend["available"], backend["waitsFor"]) == (True, "")


def test_without_a_supervisor_a_backend_is_not_available(ada):
    (backend,) = ada.get("executions/launch-suites").json()["suites"][0]["backends"]

    assert backend["available"] is False
    assert problem(ada.post("executions", {"suiteId": "hello"})) == (503, "backend_unavailable")
    assert not Execution.objects.exists()


def test_a_launch_answers_its_summary_and_where_it_is(ada, runner):
    answer = ada.post("executions", {"suiteId": "hello", "message": "first", "branch": None})

    run = answer.json()
    assert answer.status_code == 201
    assert answer["Location"] == f"/api/v1/executions/{run['id']}"
    assert run.keys() == SUMMARY | {"queuePosition"}
    assert (run["status"], run["queuePosition"]) == ("Queued", 1)
    detail = ada.get(f"executions/{run['id']}").json()
    assert detail.keys() == DETAIL | {"queuePosition", "queue"}
    assert (detail["message"], detail["author"]) == ("first", "Ada")
    assert [event["id"] for event in detail["events"]] == ["execution-queued"]
    assert detail["suite"].keys() == SUITE
    assert [step["id"] for step in detail["steps"]] == [
        node["id"] for node in detail["suite"]["topology"]
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"suiteId": "nothing"}, (404, "suite_not_found")),
        ({"suiteId": "hello", "profile": "none.yaml"}, (400, "profile_not_in_suite")),
        ({"suiteId": "hello", "backend": "moon"}, (400, "backend_unknown")),
    ],
)
def test_what_cannot_be_launched_is_refused_and_nothing_stored(ada, runner, body, expected):
    assert problem(ada.post("executions", body)) == expected
    assert not Execution.objects.exists()


def test_an_idempotency_key_makes_one_run(ada, bob, runner):
    """Invariant 32."""
    key = {"Idempotency-Key": "k-1"}

    first = ada.post("executions", {"suiteId": "hello"}, **key)
    again = ada.post("executions", {"suiteId": "hello"}, **key)
    other = ada.post("executions", {"suiteId": "shop"}, **key)
    theirs = bob.post("executions", {"suiteId": "hello"}, **key)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again["Idempotent-Replayed"] == "true"
    assert again["Location"] == first["Location"]
    assert "Idempotent-Replayed" not in first
    assert problem(other) == (422, "idempotency_key_reused")
    assert theirs.json()["id"] != first.json()["id"]


def test_launches_are_limited_to_30_a_minute(ada, bob):
    for _ in range(30):
        assert ada.post("executions", {}).status_code == 400

    refused = ada.post("executions", {"suiteId": "hello"})

    assert problem(refused) == (429, "rate_limited")
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert bob.post("executions", {}).status_code == 400
    LimitHit.objects.all().delete()


def test_a_queued_run_is_canceled_at_once_and_then_deleted(ada, runner):
    run_id = ada.post("executions", {"suiteId": "hello"}).json()["id"]

    active = ada.delete(f"executions/{run_id}")
    canceled = ada.post(f"executions/{run_id}/cancel", {"reason": "wrong branch"})
    cancel_reason = ada.get(f"executions/{run_id}").json()["cancelReason"]
    deleted = ada.delete(f"executions/{run_id}")

    assert problem(active) == (409, "execution_active")
    assert (canceled.status_code, canceled.json()["status"]) == (202, "Canceled")
    assert cancel_reason == "wrong branch"
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert problem(ada.get(f"executions/{run_id}")) == (404, "execution_not_found")


def test_a_run_is_deleted_only_as_it_was_read(ada):
    row = make_run(ada.workspace_id, status="Healthy", finished_at=clock.now())
    path = f"executions/{row.run_id}"
    etag = ada.get(path)["ETag"]

    stale = ada.delete(path, **{"If-Match": '"another"'})
    still_there = ada.get(path).status_code
    deleted = ada.delete(path, **{"If-Match": etag})

    assert problem(stale) == (412, "precondition_failed")
    assert (still_there, deleted.status_code) == (200, 204)


def test_a_condition_does_not_hide_why_a_run_cannot_be_deleted(ada, runner):
    run_id = ada.post("executions", {"suiteId": "hello"}).json()["id"]

    refused = ada.delete(f"executions/{run_id}", **{"If-Match": '"another"'})
    unknown = ada.delete("executions/run-0123456789ab", **{"If-Match": "*"})

    assert problem(refused) == (409, "execution_active")
    assert problem(unknown) == (404, "execution_not_found")


def test_repeating_a_cancel_is_accepted_also_when_the_run_is_canceled(ada, runner):
    run_id = ada.post("executions", {"suiteId": "hello"}).json()["id"]
    ada.post(f"executions/{run_id}/cancel", {"reason": "wrong branch"})

    again = ada.post(f"executions/{run_id}/cancel", {"reason": "another reason"})

    assert (again.status_code, again.json()["status"]) == (202, "Canceled")
    assert ada.get(f"executions/{run_id}").json()["cancelReason"] == "wrong branch"


def test_a_run_that_is_over_cannot_be_canceled(ada):
    row = make_run(ada.workspace_id, status="Healthy", finished_at=clock.now())

    answer = ada.post(f"executions/{row.run_id}/cancel")

    assert problem(answer) == (409, "execution_finished")


def test_a_launch_has_a_concurrency_group(ada, runner):
    body = {"suiteId": "hello", "concurrency": {"group": "main", "cancelInProgress": True}}
    first = ada.post("executions", body).json()["id"]
    second = ada.post("executions", {**body, "concurrency": {"group": "main"}}).json()["id"]
    plain = ada.post("executions", {"suiteId": "hello", "concurrency": None}).json()["id"]

    details = [ada.get(f"executions/{run_id}").json() for run_id in (first, second, plain)]
    assert [each["status"] for each in details] == ["Canceled", "Queued", "Queued"]
    assert [each.get("concurrency") for each in details] == [
        {"group": "main", "cancelInProgress": True},
        {"group": "main", "cancelInProgress": False},
        None,
    ]
