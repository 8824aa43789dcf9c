"""The spaces of runs belong to the workspace of the run (Invariant 16)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from apps.accounts.api import Role
from mocks.model.spaces import SpaceName
from tests.apps.executions_rest.conftest import make_run
from tests.apps.mocks_rest.conftest import client_of
from tests.support.api_clients import PERSON, problem

EXPLAIN = "/api/v1/mocks/explain"
VERIFY = "/api/v1/mocks/verify"
STATE = "/api/v1/mocks/state"
JOURNAL = "/api/v1/mocks/journal"
NO_RUN = "run-0123456789ab"
ROUTES = [
    ("post", EXPLAIN),
    ("post", VERIFY),
    ("get", STATE),
    ("patch", STATE),
    ("delete", STATE),
    ("get", JOURNAL),
    ("delete", JOURNAL),
]
CHANGES = [("patch", STATE), ("delete", STATE), ("delete", JOURNAL)]


@pytest.fixture
def run_id() -> str:
    return str(make_run(PERSON.workspace_id).run_id)


def ask(client: Any, method: str, path: str, run_id: str) -> Any:
    if method in ("post", "patch"):
        space = {"suiteId": "shop", "executionId": run_id}
        call = {"surfaceId": "shop", "operationId": "createOrder"}
        record = {"key": "k", "set": {"a": "1"}, "surfaceId": "shop"}
        return getattr(client, method)(
            path, {**space, **(call if method == "post" else record)}, format="json"
        )
    return getattr(client, method)(f"{path}?suiteId=shop&executionId={run_id}")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_members_run_is_served_and_anothers_does_not_exist(served, run_id, method, path):
    stranger = client_of(workspace_id=uuid4())

    assert ask(client_of(), method, path, run_id).status_code == 200
    foreign = ask(stranger, method, path, run_id)
    unknown = ask(client_of(), method, path, NO_RUN)
    assert problem(foreign) == problem(unknown) == (404, "execution_not_found")
    assert foreign.json()["detail"] == unknown.json()["detail"]
    assert (
        ask(client_of(is_admin=True, workspace_id=uuid4()), method, path, run_id).status_code == 200
    )


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_viewer_looks_and_changes_nothing(served, run_id, method, path):
    answer = ask(client_of(role=Role.VIEWER), method, path, run_id)

    if (method, path) in CHANGES:
        assert problem(answer) == (403, "role_required")
    else:
        assert answer.status_code == 200


def test_spaces_of_two_runs_share_nothing(served, run_id):
    other = str(make_run(PERSON.workspace_id).run_id)
    client = client_of()
    ask(client, "patch", STATE, run_id)
    served.note(SpaceName("shop", run_id))

    assert len(ask(client, "get", STATE, run_id).json()["records"]) == 1
    assert ask(client, "get", STATE, other).json()["records"] == []
    assert ask(client, "get", JOURNAL, other).json()["entries"] == []


def test_the_imports_of_a_run_have_spaces_of_their_own(served, run_id):
    served.note(SpaceName("shop", run_id, "pay/db"))

    path = f"{JOURNAL}?suiteId=shop&executionId={run_id}"

    assert client_of().get(path).json()["entries"] == []
    assert len(client_of().get(f"{path}&import=pay/db").json()["entries"]) == 1


def test_what_is_called_of_a_run_that_ended_is_still_read(served, run_id):
    served.note(SpaceName("shop", run_id))
    served.contents.ended.add(run_id)

    assert len(ask(client_of(), "get", JOURNAL, run_id).json()["entries"]) == 1
    assert problem(ask(client_of(), "post", EXPLAIN, run_id)) == (404, "space_not_active")
