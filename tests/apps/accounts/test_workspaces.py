"""Members of a workspace, their roles, invitations, and whose runs one sees."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from apps.accounts import selectors
from apps.accounts.models import Invitation, Membership, User, Workspace
from apps.accounts.selectors import active_account
from kernel.clock import now
from tests.apps.accounts.conftest import PASSWORD, Api
from tests.support.api_clients import problem
from tests.support.threads import at_once

pytestmark = pytest.mark.store


def person(name: str, address: str, **more: str) -> Api:
    """Signs up; the API with the access token."""
    facts = {"fullName": name, "email": f"{name.lower()}@example.org", "password": PASSWORD}
    answer = Api(address=address).auth("sign-up", facts | more)
    assert answer.status_code == 201, answer.content
    return Api(token=answer.json()["token"], address=address)


@pytest.fixture
def bob(signed_up) -> Api:
    return person("Bob", "203.0.113.20")


def home_of(api: Api) -> str:
    return str(api.me().json()["workspace"]["workspaceId"])


def user_of(api: Api) -> str:
    return str(api.me().json()["user"]["userId"])


def invite(api: Api, **body: str) -> Any:
    return api.post(f"/api/v1/workspaces/{home_of(api)}/invitations", {"role": "runner"} | body)


def token_in(answer: Any) -> str:
    assert answer.status_code == 201, answer.content
    return str(answer.json()["link"]).partition("#")[2]


def join(api: Api, token: str) -> Any:
    return api.post("/api/v1/invitations/accept", {"token": token})


def put(api: Api, path: str, body: dict[str, str]) -> Any:
    return api.client.put(
        path,
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {api.token}"},
    )


def delete(api: Api, path: str) -> Any:
    return api.client.delete(path, headers={"Authorization": f"Bearer {api.token}"})


def role_path(owner: Api, member: Api) -> str:
    return f"/api/v1/workspaces/{home_of(owner)}/members/{user_of(member)}"


def test_who_signs_up_administers_a_workspace_of_their_own(ada):
    (own,) = ada.get("/api/v1/workspaces").json()["workspaces"]

    assert (own["name"], own["role"], own["current"]) == ("Ada's workspace", "admin", True)
    assert ada.me().json()["role"] == "admin"


def test_an_invitation_makes_a_member_who_works_there_at_once(ada, bob):
    home = home_of(ada)
    token = token_in(invite(ada))

    joined = join(bob, token)

    assert joined.status_code == 200, joined.content
    assert (joined.json()["workspaceId"], joined.json()["role"]) == (home, "runner")
    assert (home_of(bob), bob.me().json()["role"]) == (home, "runner")
    members = ada.get(f"/api/v1/workspaces/{home}/members").json()["members"]
    assert [(one["email"], one["role"]) for one in members] == [
        ("ada@example.org", "admin"),
        ("bob@example.org", "runner"),
    ]


def test_the_link_works_once_and_the_store_holds_only_its_hash(ada, bob):
    answer = invite(ada)
    token = token_in(answer)
    assert token not in str(list(Invitation.objects.values()))
    assert answer.json()["link"].startswith("http://localhost:8090/invitation#")
    carol = person("Carol", "203.0.113.21")

    assert join(bob, token).status_code == 200

    assert problem(join(carol, token)) == (400, "invitation_invalid")
    assert problem(join(carol, "x" * 43)) == (400, "invitation_invalid")


def test_of_two_who_follow_a_link_at_once_one_becomes_a_member(transactional_db, ada, bob):
    token = token_in(invite(ada))
    people = [bob, person("Carol", "203.0.113.21")]

    statuses = at_once([partial(join, one, token) for one in people])

    assert sorted(one.status_code for one in statuses) == [200, 400]
    assert Membership.objects.filter(workspace_id=home_of(ada)).count() == 2


def test_an_invitation_expires_and_can_be_revoked(ada, bob):
    old, revoked = token_in(invite(ada)), invite(ada)
    Invitation.objects.exclude(pk=revoked.json()["invitationId"]).update(
        expires_at=now() - timedelta(seconds=1)
    )
    home = home_of(ada)
    path = f"/api/v1/workspaces/{home}/invitations"
    assert [one["role"] for one in ada.get(path).json()["invitations"]] == ["runner"]

    assert delete(ada, f"{path}/{revoked.json()['invitationId']}").status_code == 204

    for token in (old, token_in(revoked)):
        assert problem(join(bob, token)) == (400, "invitation_invalid")
    assert ada.get(path).json()["invitations"] == []


def test_an_invitation_for_an_address_is_for_nobody_else(ada, bob):
    token = token_in(invite(ada, email=" Carol@Example.org "))

    assert problem(join(bob, token)) == (403, "invitation_not_yours")
    assert join(person("Carol", "203.0.113.21"), token).status_code == 200


def test_an_invitation_of_someone_who_was_disabled_counts_no_more(ada, bob, ada_row):
    token = token_in(invite(ada))
    User.objects.filter(pk=ada_row.pk).update(is_active=False)

    assert problem(join(bob, token)) == (400, "invitation_invalid")


def test_the_link_tells_where_it_leads_to_before_one_signs_in(ada):
    token = token_in(invite(ada))

    shown = Api(address="203.0.113.30").post("/api/v1/invitations/preview", {"token": token})

    assert shown.json() | {"expiresAt": ""} == {
        "workspaceName": "Ada's workspace",
        "invitedBy": "Ada Lovelace",
        "role": "runner",
        "expiresAt": "",
    }
    assert "ada@example.org" not in shown.content.decode()


def test_guessing_links_is_limited(ada):
    stranger = Api(address="203.0.113.31")
    statuses = [
        stranger.post("/api/v1/invitations/preview", {"token": "x"}).status_code for _ in range(21)
    ]

    assert statuses == [400] * 20 + [429]


def test_an_invited_person_signs_up_into_the_workspace_where_sign_up_is_closed(ada, settings):
    settings.AUTH_SIGNUP_ENABLED = False
    token = token_in(invite(ada, role="viewer"))

    carol = person("Carol", "203.0.113.21", invitation=token)

    assert (home_of(carol), carol.me().json()["role"]) == (home_of(ada), "viewer")
    assert [row["role"] for row in carol.get("/api/v1/workspaces").json()["workspaces"]] == [
        "viewer"
    ]
    assert Workspace.objects.count() == 1
    dave = {"fullName": "Dave", "email": "dave@example.org", "password": PASSWORD}
    for more in ({}, {"invitation": token}):
        refused = Api(address="203.0.113.22").auth("sign-up", dave | more)
        assert refused.status_code in (400, 403), refused.content
    assert not User.objects.filter(email="dave@example.org").exists()


def test_sign_up_is_open_until_there_is_an_administrator(api, settings, request):
    settings.AUTH_SIGNUP_ENABLED = None
    assert api.get("/api/v1/auth/config").json()["signUpEnabled"] is True
    person("Ada", "203.0.113.7")

    request.getfixturevalue("admin")

    assert api.get("/api/v1/auth/config").json()["signUpEnabled"] is False
    bob = {"fullName": "Bob", "email": "bob@example.org", "password": PASSWORD}
    assert problem(api.auth("sign-up", bob)) == (403, "sign_up_disabled")


@pytest.mark.parametrize("role", ["viewer", "runner"])
def test_only_administrators_of_the_workspace_change_who_is_in_it(ada, bob, role: str):
    home = home_of(ada)
    join(bob, token_in(invite(ada, role=role)))
    path = f"/api/v1/workspaces/{home}"

    answers = [
        bob.post(f"{path}/invitations", {"role": "admin"}),
        bob.get(f"{path}/invitations"),
        put(bob, f"{path}/members/{user_of(bob)}", {"role": "admin"}),
        delete(bob, f"{path}/members/{user_of(ada)}"),
    ]

    assert [problem(one) for one in answers] == [(403, "role_required")] * 4
    assert bob.get(f"{path}/members").status_code == 200


def test_the_role_in_one_workspace_counts_in_no_other(ada, bob):
    """Bob administers his own workspace and views Ada's."""
    bobs, adas = home_of(bob), home_of(ada)
    join(bob, token_in(invite(ada, role="viewer")))
    assert bob.post(f"/api/v1/workspaces/{bobs}/invitations", {"role": "runner"}).status_code == 201
    assert put(bob, "/api/v1/workspaces/current", {"workspaceId": bobs}).status_code == 200

    assert bob.me().json()["role"] == "admin"
    refused = bob.post(f"/api/v1/workspaces/{adas}/invitations", {"role": "runner"})
    assert problem(refused) == (403, "role_required")


def test_a_workspace_of_others_is_as_if_it_did_not_exist(ada, bob):
    home, nowhere = home_of(ada), "00000000-0000-4000-8000-000000000000"
    bodies = []
    for workspace in (home, nowhere):
        path = f"/api/v1/workspaces/{workspace}"
        answers = [
            bob.get(f"{path}/members"),
            bob.get(f"{path}/invitations"),
            bob.post(f"{path}/invitations", {"role": "viewer"}),
            put(bob, f"{path}/members/{user_of(ada)}", {"role": "viewer"}),
            delete(bob, f"{path}/members/{user_of(ada)}"),
            put(bob, "/api/v1/workspaces/current", {"workspaceId": workspace}),
        ]
        assert {problem(one) for one in answers} == {(404, "not_found")}
        bodies.append([one.json()["detail"] for one in answers])
    assert bodies[0] == bodies[1]


def test_who_is_removed_sees_nothing_of_it_any_more_and_works_elsewhere(ada, bob):
    own = home_of(bob)
    join(bob, token_in(invite(ada)))

    assert delete(ada, role_path(ada, bob)).status_code == 204

    assert home_of(bob) == own
    assert problem(bob.get(f"/api/v1/workspaces/{home_of(ada)}/members")) == (404, "not_found")


def test_who_had_no_other_workspace_gets_one(ada):
    carol = person("Carol", "203.0.113.21", invitation=token_in(invite(ada)))

    assert delete(carol, role_path(ada, carol)).status_code == 204  # leaves

    assert carol.me().json()["workspace"]["name"] == "Carol's workspace"
    assert carol.me().json()["role"] == "admin"


def test_a_workspace_keeps_an_administrator(ada, bob):
    join(bob, token_in(invite(ada)))
    own = role_path(ada, ada)

    assert problem(put(ada, own, {"role": "viewer"})) == (409, "last_workspace_admin")
    assert problem(delete(ada, own)) == (409, "last_workspace_admin")
    assert put(ada, role_path(ada, bob), {"role": "admin"}).status_code == 200
    assert put(ada, own, {"role": "viewer"}).status_code == 200


def test_two_administrators_who_demote_each_other_at_once_leave_one(transactional_db, ada, bob):
    join(bob, token_in(invite(ada, role="admin")))
    paths = role_path(ada, ada), role_path(ada, bob)

    statuses = at_once(
        [
            lambda: put(ada, paths[1], {"role": "viewer"}).status_code,
            lambda: put(bob, paths[0], {"role": "viewer"}).status_code,
        ]
    )

    assert sorted(statuses) in ([200, 403], [200, 409])
    assert Membership.objects.filter(workspace_id=home_of(ada), role="admin").count() == 1


def test_an_administrator_of_the_installation_manages_every_workspace(ada, admin):
    home = home_of(ada)

    assert len(admin.get(f"/api/v1/workspaces/{home}/members").json()["members"]) == 1
    assert (
        admin.post(f"/api/v1/workspaces/{home}/invitations", {"role": "admin"}).status_code == 201
    )
    assert home_of(admin) != home


def test_a_workspace_can_be_made_and_worked_in(ada):
    made = ada.post("/api/v1/workspaces", {"name": "  Shop team "})
    assert (made.status_code, made.json()["name"], made.json()["role"]) == (
        201,
        "Shop team",
        "admin",
    )

    switched = put(ada, "/api/v1/workspaces/current", {"workspaceId": made.json()["workspaceId"]})

    assert switched.json()["current"] is True
    assert ada.me().json()["workspace"]["name"] == "Shop team"


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201])
def test_names_of_workspaces_are_checked(ada, name: str):
    assert problem(ada.post("/api/v1/workspaces", {"name": name}))[0] == 400


def test_an_account_without_a_membership_is_not_active(ada_row):
    Membership.objects.all().delete()
    selectors._cache.clear()

    assert active_account(ada_row.pk) is None


@pytest.mark.parametrize("how", ["demoted", "removed"])
def test_a_link_does_not_outlive_the_rights_of_who_made_it(ada, bob, how: str):
    join(bob, token_in(invite(ada, role="admin")))
    home, theirs = home_of(ada), token_in(invite(bob, role="admin"))
    path = role_path(ada, bob)

    changed = delete(ada, path) if how == "removed" else put(ada, path, {"role": "viewer"})

    assert changed.status_code in (200, 204)
    carol = person("Carol", "203.0.113.21")
    assert problem(join(carol, theirs)) == (400, "invitation_invalid")
    assert ada.get(f"/api/v1/workspaces/{home}/invitations").json()["invitations"] == []


def test_an_api_token_moves_nobody_and_makes_no_link(ada):
    made = ada.auth("tokens", {"name": "ci", "scope": "admin"}).json()["token"]
    program = Api(token=made)
    home = home_of(ada)

    answers = [
        delete(program, f"/api/v1/workspaces/{home}/members/{user_of(ada)}"),
        program.post("/api/v1/workspaces", {"name": "x"}),
        program.post(f"/api/v1/workspaces/{home}/invitations", {"role": "admin"}),
    ]

    assert [problem(one) for one in answers] == [(403, "session_required")] * 3


def test_a_disabled_administrator_is_not_the_one_who_stays(ada, bob):
    join(bob, token_in(invite(ada, role="admin")))
    User.objects.filter(email="bob@example.org").update(is_active=False)

    assert problem(put(ada, role_path(ada, ada), {"role": "viewer"})) == (
        409,
        "last_workspace_admin",
    )
