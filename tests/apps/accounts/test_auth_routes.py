"""Each row of the table of routes (reference: control-plane 3)."""

from __future__ import annotations

import re
import uuid

import pytest
from django.contrib.auth import hashers

from apps.accounts.models import User, Workspace
from tests.apps.accounts.conftest import PASSWORD, Api
from tests.support.api_clients import problem

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
ADA = {"fullName": "Ada Lovelace", "email": "ada@example.org", "password": PASSWORD}


def test_config_says_what_is_switched_on(api, settings):
    settings.AUTH_SIGNUP_ENABLED = False

    answer = api.get("/api/v1/auth/config")

    assert answer.status_code == 200
    assert answer.json() == {
        "passwordAuthEnabled": True,
        "signUpEnabled": False,
        "passwordResetEnabled": False,
        "providers": [],
    }


def test_sign_up_answers_tokens_user_and_workspace(signed_up):
    assert set(signed_up) == {
        "token",
        "expiresAt",
        "refreshToken",
        "refreshExpiresAt",
        "user",
        "workspace",
    }
    assert len(signed_up["refreshToken"]) == 43
    assert TIME.match(signed_up["expiresAt"])
    assert TIME.match(signed_up["refreshExpiresAt"])
    user, workspace = signed_up["user"], signed_up["workspace"]
    assert uuid.UUID(user["userId"]).version == 4
    assert user["workspaceId"] == workspace["workspaceId"]
    assert (user["username"], user["email"], user["fullName"]) == (
        "ada",
        "ada@example.org",
        "Ada Lovelace",
    )
    assert user["isAdmin"] is False
    assert TIME.match(user["createdAt"])
    assert (workspace["slug"], workspace["name"]) == ("ada-lovelace", "Ada's workspace")
    assert set(workspace) == {"workspaceId", "slug", "name", "createdAt"}


def test_answers_with_tokens_are_not_cached(api):
    assert api.auth("sign-up", ADA)["Cache-Control"] == "no-store"


def test_sign_up_trims_and_lower_cases_the_mail(api):
    answer = api.auth("sign-up", ADA | {"email": "  Ada@Example.ORG "})

    assert answer.json()["user"]["email"] == "ada@example.org"


def test_a_second_workspace_of_the_same_name_gets_another_slug(api, signed_up):
    answer = api.auth("sign-up", ADA | {"email": "other@example.org"})

    assert re.fullmatch(r"ada-lovelace-[0-9a-f]{6}", answer.json()["workspace"]["slug"])


def test_sign_up_refuses_a_known_mail_in_any_spelling(api, signed_up):
    answer = api.auth("sign-up", ADA | {"email": "ADA@example.org "})

    assert problem(answer) == (409, "email_taken")
    assert User.objects.count() == 1
    assert Workspace.objects.count() == 1


def test_sign_up_can_be_switched_off(api, settings):
    settings.AUTH_SIGNUP_ENABLED = False

    assert problem(api.auth("sign-up", ADA)) == (403, "sign_up_disabled")


def test_nobody_becomes_administrator_by_asking(api):
    """Invariant 26: an unknown body key is refused, and names its place."""
    answer = api.auth("sign-up", ADA | {"isAdmin": True})

    assert problem(answer) == (400, "validation_failed")
    assert answer.json()["errors"] == [
        {"pointer": "/isAdmin", "code": "unknown_field", "detail": "is not a known key"}
    ]
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"fullName": "  "}, "/fullName"),
        ({"fullName": "x" * 201}, "/fullName"),
        ({"fullName": "a\nb"}, "/fullName"),
        ({"email": ""}, "/email"),
        ({"email": "ada"}, "/email"),
        ({"email": "ada@localhost"}, "/email"),
        ({"email": "a da@example.org"}, "/email"),
        ({"email": "a" * 250 + "@x.org"}, "/email"),
    ],
)
def test_sign_up_names_the_field_at_fault(api, change, pointer):
    answer = api.auth("sign-up", ADA | change)

    assert problem(answer) == (400, "validation_failed")
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize(
    "password", ["", "Short-1", "no-upper-1", "NO-LOWER-1", "No-Digit-", "Aa1" * 342]
)
def test_a_weak_password_is_refused_and_not_repeated(api, password):
    answer = api.auth("sign-up", ADA | {"password": password})

    assert problem(answer) == (400, "weak_password")
    assert {fault["pointer"] for fault in answer.json()["errors"]} == {"/password"}
    assert not password or password not in answer.content.decode()


def test_missing_fields_are_all_named(api):
    answer = api.auth("sign-up", {})

    assert {(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]} == {
        ("/fullName", "required"),
        ("/email", "required"),
        ("/password", "required"),
    }


def test_sign_in_answers_like_sign_up(api, signed_up):
    answer = api.auth("sign-in", {"email": " ADA@example.org", "password": PASSWORD})

    assert answer.status_code == 200
    assert set(answer.json()) == set(signed_up)
    assert answer.json()["user"] == signed_up["user"]
    assert answer.json()["token"] != signed_up["token"]


def test_wrong_password_unknown_mail_and_no_password_look_the_same(api, signed_up):
    User.objects.create(
        email="sso@example.org", full_name="S", password="!", workspace=Workspace.objects.get()
    )

    answers = [
        api.auth("sign-in", {"email": email, "password": "Wrong-Horse-1"})
        for email in ("ada@example.org", "nobody@example.org", "sso@example.org", "no mail")
    ]

    assert {problem(answer) for answer in answers} == {(401, "invalid_credentials")}
    assert {answer["WWW-Authenticate"] for answer in answers} == {"Bearer"}
    assert len({answer.json()["detail"] for answer in answers}) == 1


def test_all_failed_sign_ins_cost_one_hash(api, signed_up, monkeypatch):
    hasher = type(hashers.get_hasher())
    encode = hasher.encode
    hashed: list[str] = []

    def counted(self, password, *rest, **more):
        hashed.append(password)
        return encode(self, password, *rest, **more)

    monkeypatch.setattr(hasher, "encode", counted)

    costs = []
    for email in ("ada@example.org", "nobody@example.org", "not a mail"):
        hashed.clear()
        api.auth("sign-in", {"email": email, "password": "Wrong-Horse-1"})
        costs.append(len(hashed))

    assert costs == [1, 1, 1]


def test_sign_in_by_password_can_be_switched_off(api, signed_up, settings):
    settings.AUTH_PASSWORD_LOGIN_ENABLED = False

    answer = api.auth("sign-in", {"email": "ada@example.org", "password": PASSWORD})

    assert problem(answer) == (403, "password_auth_disabled")


def test_a_disabled_account_is_told_so_only_after_the_right_password(api, ada_row):
    User.objects.update(is_active=False)

    wrong = api.auth("sign-in", {"email": "ada@example.org", "password": "Wrong-Horse-1"})
    right = api.auth("sign-in", {"email": "ada@example.org", "password": PASSWORD})

    assert problem(wrong) == (401, "invalid_credentials")
    assert problem(right) == (403, "account_disabled")


def test_a_stale_bearer_header_does_not_keep_one_from_signing_in(api, signed_up):
    answer = Api(token="stale").auth("sign-in", {"email": "ada@example.org", "password": PASSWORD})

    assert answer.status_code == 200


def test_me_answers_user_workspace_and_the_end_of_the_credential(ada, signed_up):
    answer = ada.me()

    assert answer.status_code == 200
    assert answer.json().keys() == {"user", "workspace", "role", "expiresAt"}
    assert answer.json()["user"] == signed_up["user"]
    assert answer.json()["workspace"] == signed_up["workspace"]
    assert answer.json()["expiresAt"] == signed_up["expiresAt"]


@pytest.mark.parametrize(
    ("method", "route"), [("get", "me"), ("post", "sign-out"), ("post", "stream-tickets")]
)
def test_the_rest_needs_a_session(api, method, route):
    """Invariant 36: no route outside the public list answers without one."""
    answer = getattr(api, method)(f"/api/v1/auth/{route}")

    assert problem(answer) == (401, "unauthenticated")
    assert answer["WWW-Authenticate"] == "Bearer"


def test_an_unknown_query_parameter_is_refused(ada):
    """Invariant 26. `token` is one, anywhere but on streams."""
    for name in ("verbose", "token"):
        answer = ada.get("/api/v1/auth/me", {name: "x"})

        assert problem(answer) == (400, "unknown_parameter")


def test_providers_are_a_list(api):
    assert api.get("/api/v1/auth/sso/providers").json() == {"providers": []}


def test_single_sign_on_that_is_off_says_so(api):
    login = api.get("/api/v1/auth/oidc/login", {"return_url": "/", "flow": "code"})
    callback = api.get("/api/v1/auth/oidc/callback", {"state": "x", "session_state": "y"})

    assert problem(login) == (404, "oidc_disabled")
    assert problem(callback) == (404, "oidc_disabled")
    assert problem(api.auth("oidc/exchange", {"code": "x"})) == (401, "code_invalid")
    assert problem(api.auth("oidc/exchange", {})) == (400, "validation_failed")


def test_without_mail_there_is_no_reset(api):
    forgot = api.auth("forgot-password", {"email": "ada@example.org"})
    reset = api.auth("reset-password", {"token": "x" * 43, "password": PASSWORD})

    assert problem(forgot) == (503, "mail_unavailable")
    assert problem(reset) == (400, "reset_token_invalid")


def test_a_wrong_method_says_which_are_right(api):
    answer = api.get("/api/v1/auth/sign-in")

    assert problem(answer) == (405, "method_not_allowed")
    assert "POST" in answer["Allow"]


def test_bodies_are_json(api):
    answer = api.client.post("/api/v1/auth/sign-in", {"email": "x"}, REMOTE_ADDR="203.0.113.7")

    assert problem(answer) == (415, "unsupported_media_type")
