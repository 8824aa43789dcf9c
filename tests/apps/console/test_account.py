"""The page of the caller's own account: password, sign out everywhere."""

from __future__ import annotations

import re

import pyotp
import pytest
from django.test import Client

from apps.accounts.models import User
from apps.accounts.services import passwords

OLD, NEW = "Str0ngEnough", "Even5tronger"
EMAIL = "ada@example.org"
FORM = {"old": OLD, "new": NEW, "again": NEW}


def signed_in(password: str = OLD) -> Client:
    client = Client()
    assert client.post("/sign-in", {"email": EMAIL, "password": password}).status_code == 302
    return client


@pytest.fixture
def ada(db: None) -> Client:
    client = Client()
    facts = {"fullName": "Ada", "email": EMAIL, "password": OLD}
    assert client.post("/sign-up", facts).status_code == 302
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/account").status_code == 200


def test_a_new_password_ends_all_other_sessions_and_tokens(ada: Client):
    """Invariant 18."""
    other = signed_in()
    body = {"email": EMAIL, "password": OLD}
    pair = Client().post("/api/v1/auth/sign-in", body, content_type="application/json").json()
    bearer = {"Authorization": f"Bearer {pair['token']}"}
    assert Client().get("/api/v1/auth/me", headers=bearer).status_code == 200

    answer = ada.post("/account/password", FORM)

    assert "Password changed" in answer.content.decode()
    assert is_signed_in(ada)
    assert not is_signed_in(other)
    assert Client().get("/api/v1/auth/me", headers=bearer).status_code == 401
    assert Client().post("/sign-in", {"email": EMAIL, "password": OLD}).status_code == 401
    assert is_signed_in(signed_in(NEW))


def test_a_process_that_remembers_the_old_password_keeps_the_new_session(
    ada: Client, monkeypatch: pytest.MonkeyPatch
):
    assert is_signed_in(ada)
    monkeypatch.setattr(passwords, "clear_cached", lambda *_: None)

    ada.post("/account/password", FORM)

    assert is_signed_in(ada)


@pytest.mark.parametrize(
    ("form", "status", "text"),
    [
        ({**FORM, "old": "Wr0ngOne!"}, 401, "The current password is wrong"),
        ({**FORM, "again": "Another1One"}, 400, "The two new passwords differ"),
        ({**FORM, "new": "weak", "again": "weak"}, 400, "The password"),
        ({}, 401, "The current password is wrong"),
    ],
)
def test_a_refused_change_changes_nothing(
    ada: Client, form: dict[str, str], status: int, text: str
):
    other = signed_in()
    before = User.objects.get().password

    answer = ada.post("/account/password", form)

    assert answer.status_code == status
    assert text in answer.content.decode()
    assert User.objects.get().password == before
    assert is_signed_in(ada)
    assert is_signed_in(other)


def test_guesses_of_the_old_password_are_limited(ada: Client):
    for _ in range(10):
        ada.post("/account/password", {**FORM, "old": "Wr0ngOne!"})

    answer = ada.post("/account/password", FORM)

    assert answer.status_code == 429
    assert answer["Retry-After"]


def test_signing_out_everywhere_ends_this_browser_too(ada: Client):
    """Invariant 18."""
    other = signed_in()

    answer = ada.post("/account/sign-out-everywhere")

    assert (answer.status_code, answer["Location"]) == (303, "/sign-in")
    assert not is_signed_in(ada)
    assert not is_signed_in(other)


@pytest.mark.parametrize("path", ["/account/password", "/account/sign-out-everywhere"])
def test_the_forms_need_their_token(ada: Client, path: str):
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = ada.cookies

    assert strict.post(path, FORM).status_code == 403
    assert is_signed_in(ada)


def test_a_token_is_made_shown_once_used_and_revoked(ada: Client):
    page = ada.post("/account/tokens", {"name": "ci", "scope": "read", "days": "7"})
    token = page.content.decode().split("data-api-token>")[1].split("<")[0]
    assert token.startswith("pat_")
    bearer = {"Authorization": f"Bearer {token}"}
    assert Client().get("/api/v1/auth/me", headers=bearer).status_code == 200

    again = ada.get("/account").content.decode()
    assert token not in again
    assert "last used" in again
    row = User.objects.get(email=EMAIL).api_tokens.get()
    assert ada.post("/account/tokens/revoke", {"token": row.pk}).status_code == 303

    assert Client().get("/api/v1/auth/me", headers=bearer).status_code == 401


def test_pages_are_not_for_tokens(ada: Client):
    page = ada.post("/account/tokens", {"name": "ci", "scope": "admin", "days": "7"})
    token = page.content.decode().split("data-api-token>")[1].split("<")[0]

    answer = Client().get("/account", headers={"Authorization": f"Bearer {token}"})

    assert answer.status_code == 302


@pytest.mark.parametrize(
    "form",
    [
        {"name": "", "scope": "read", "days": "7"},
        {"name": "x", "scope": "all", "days": "7"},
        {"name": "x", "scope": "read", "days": "8"},
    ],
)
def test_a_form_of_a_token_is_checked(ada: Client, form: dict[str, str]):
    assert ada.post("/account/tokens", form).status_code == 400


def field_tag(page: str, name: str) -> str:
    found = re.search(rf'<input name="{name}"[^>]*>', page)
    assert found, page
    return found[0]


def test_after_a_wrong_password_the_focus_is_on_the_password(ada: Client):
    client = Client()
    first = client.get("/sign-in").content.decode()
    again = client.post("/sign-in", {"email": EMAIL, "password": "Wr0ngWr0ng"}).content.decode()

    assert "autofocus" in field_tag(first, "email")
    assert "autofocus" not in field_tag(again, "email")
    assert "autofocus" in field_tag(again, "password")
    assert f'value="{EMAIL}"' in field_tag(again, "email")


def test_recovery_codes_and_a_token_can_be_copied_and_the_codes_saved(ada: Client):
    page = ada.post("/account/second-factor/begin").content.decode()
    secret = re.search(r"data-secret>([^<]+)<", page)
    assert secret
    code = pyotp.TOTP(secret[1]).now()
    page = ada.post("/account/second-factor/confirm", {"code": code}).content.decode()

    assert 'id="recovery-codes"' in page
    assert 'data-copy="recovery-codes"' in page
    assert 'data-download="recovery-codes"' in page
    made = ada.post("/account/tokens", {"name": "ci", "scope": "run", "days": "90"})
    assert 'data-copy="api-token"' in made.content.decode()
