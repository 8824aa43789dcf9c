"""The pages of a workspace's members and of an invitation."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from apps.accounts.models import Invitation, Membership, User

FORM = {"password": "Str0ngEnough"}


def signed_up(name: str, **more: str) -> Client:
    client = Client()
    facts = {"fullName": name, "email": f"{name.lower()}@example.org", **FORM, **more}
    answer = client.post("/sign-up", facts)
    assert answer.status_code == 302, answer.content
    return client


@pytest.fixture
def ada(db: None) -> Client:
    return signed_up("Ada")


def invited(ada: Client, role: str = "runner") -> str:
    """The token of a link that the page shows."""
    page = ada.post("/team/invite", {"role": role}).content.decode()
    link = re.search(r"/invitation#([\w-]{43})", page)
    assert link, page
    return link[1]


def text_of(client: Client, path: str = "/team") -> str:
    return " ".join(client.get(path).content.decode().split())


def test_the_page_shows_members_and_the_link_of_an_invitation_once(ada: Client):
    token = invited(ada)

    assert "ada@example.org" in text_of(ada)
    assert token not in text_of(ada)
    assert "whoever has the link" in text_of(ada)


def test_a_member_who_is_no_administrator_sees_no_forms_that_would_be_refused(ada: Client):
    vera = signed_up("Vera", invitation=invited(ada, "viewer"))

    page = text_of(vera)

    assert "Ada's workspace" in page.replace("&#x27;", "'")
    for form in ("/team/invite", "/team/role"):
        assert form not in page
    assert vera.post("/team/invite", {"role": "admin"}).status_code == 403


def test_roles_change_and_members_go(ada: Client):
    signed_up("Vera", invitation=invited(ada, "viewer"))
    vera = User.objects.get(email="vera@example.org")

    answer = ada.post("/team/role", {"member": vera.pk, "role": "runner"})
    assert (answer.status_code, answer["Location"]) == (303, "/team")
    assert Membership.objects.get(user=vera).role == "runner"

    ada.post("/team/remove", {"member": vera.pk})
    assert "vera@example.org" not in text_of(ada)


def test_a_refused_change_is_told_on_the_page(ada: Client):
    me = User.objects.get(email="ada@example.org")

    answer = ada.post("/team/remove", {"member": me.pk})

    assert answer.status_code == 409
    assert "only administrator" in answer.content.decode()
    assert Membership.objects.filter(user=me).exists()


def test_an_invitation_can_be_revoked(ada: Client):
    invited(ada)

    ada.post("/team/revoke", {"invitation": Invitation.objects.get().pk})

    assert not Invitation.objects.exists()


def test_one_switches_between_workspaces(ada: Client):
    ada.post("/team/create", {"name": "Shop team"})
    assert "<h1>Shop team</h1>" in text_of(ada)
    home = Membership.objects.get(workspace__slug="ada").workspace_id

    ada.post("/team/switch", {"workspace": home})

    assert "<h1>Ada&#x27;s workspace</h1>" in text_of(ada)


@pytest.mark.parametrize("path", ["/team/invite", "/team/switch", "/team/remove", "/team/role"])
def test_forms_without_what_they_need_are_refused(ada: Client, path: str):
    assert ada.post(path, {"workspace": "x", "member": "x", "role": "x"}).status_code == 400


def test_forms_need_their_token(ada: Client):
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = ada.cookies

    assert strict.post("/team/create", {"name": "x"}).status_code == 403


def test_the_page_of_an_invitation_needs_no_account_and_holds_no_script_inline(db: None):
    page = Client().get("/invitation")

    assert page.status_code == 200
    assert "Create an account and join" in page.content.decode()
    assert "script-src 'self'" in page["Content-Security-Policy"]


def test_the_page_of_a_run_that_is_not_there_says_that_it_may_be_elsewhere(ada: Client):
    page = text_of(ada, "/executions/run-0123456789ab")

    assert "it belongs to another workspace" in page


def test_a_form_of_another_workspace_changes_nothing(ada: Client):
    home = Membership.objects.get(workspace__slug="ada").workspace_id
    ada.post("/team/create", {"name": "Shop team"})

    answer = ada.post("/team/invite", {"role": "viewer", "in": home})

    assert answer.status_code == 400
    assert "switched to another workspace" in answer.content.decode()
    assert not Invitation.objects.exists()
    page = ada.get("/team").content.decode()
    assert page.count('name="in"') == page.count('action="/team/role"') + page.count(
        'action="/team/remove"'
    ) + page.count('action="/team/invite"') + page.count('action="/team/revoke"')


def test_the_link_of_an_invitation_can_be_copied_and_every_column_has_a_name(ada: Client):
    page = ada.post("/team/invite", {"role": "viewer"}).content.decode()

    assert 'id="invitation-link"' in page
    assert 'data-copy="invitation-link"' in page
    headers = re.findall(r"<th scope=\"col\">([^<]*)</th>|<th></th>", page)
    assert len(headers) == 11
    assert all(headers)
    assert '<th scope="col">Change</th>' not in page
