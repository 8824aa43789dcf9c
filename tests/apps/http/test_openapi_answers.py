"""The check of documents against the API's description finds what differs, and names the place."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.openapi_answers import check_against_openapi

PERSON = {"fullName": "Ada", "email": "ada@example.org", "password": "Str0ngEnough"}


@pytest.fixture
def ada(db: None) -> Client:
    client = Client()
    assert client.post("/sign-up", PERSON).status_code == 302
    return client


@pytest.fixture
def me(ada: Client) -> Any:
    return ada.get("/api/v1/auth/me").json()


@pytest.mark.parametrize(
    ("path", "operation_id"),
    [
        ("auth/me", "auth_me"),
        ("auth/config", "auth_config"),
        ("workspaces", "workspaces_list"),
        ("executions", "executions_list"),
        ("suites", "suites_list"),
        ("sandboxes", "sandboxes_list"),
        ("agents", "agents_list"),
        ("engine/overview", "engine_overview_retrieve"),
    ],
)
def test_what_the_api_answers_is_as_described(ada: Client, path: str, operation_id: str):
    check_against_openapi(operation_id, ada.get(f"/api/v1/{path}").json())


def test_a_member_or_an_entry_is_checked_alone(ada: Client):
    found = ada.get("/api/v1/workspaces").json()["workspaces"]

    check_against_openapi("workspaces_list", found, member="workspaces")
    check_against_openapi("workspaces_list", found[0], member="workspaces.0")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"role": "owner"}, "/role: .*owner"),
        ({"expiresAt": "tomorrow"}, "/expiresAt: .*date-time"),
        ({"user": {}}, "/user: .*required"),
        ({"rolle": "admin"}, "/: .*rolle"),
        ({"workspace": None}, "/workspace: .*null"),
    ],
)
def test_what_differs_is_named_with_its_place(me: Any, change: dict[str, object], said: str):
    with pytest.raises(AssertionError, match=f"auth_me answers otherwise:\n{said}"):
        check_against_openapi("auth_me", {**me, **change})


def test_an_operation_or_a_member_that_is_not_there_is_named():
    with pytest.raises(AssertionError, match=r"no operation 'runs_list'; known: .*executions_list"):
        check_against_openapi("runs_list", {})
    with pytest.raises(AssertionError, match=r"there is no 'runs' in .*executions"):
        check_against_openapi("executions_list", [], member="runs")
    with pytest.raises(AssertionError, match="auth_me has the answers"):
        check_against_openapi("auth_me", {}, status=201)
