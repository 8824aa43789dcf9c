"""Single sign-on by the rules (reference: control-plane 3), at a provider that also lies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import jwt
import pytest

from apps.accounts import selectors
from apps.accounts.domain.external_identity import ExternalIdentity, safe_return_url
from apps.accounts.domain.roles import Role
from apps.accounts.models import ExternalAccount, Invitation, Membership, UiSession, User
from apps.accounts.selectors import find_user
from apps.accounts.services import external_accounts
from apps.accounts.services.external_accounts import external_sign_in
from apps.accounts.services.invitations import invite
from apps.accounts.services.oidc_client import forget_discovered
from apps.accounts.services.sign_up import sign_up
from kernel import clock
from tests.apps.accounts.conftest import PASSWORD, Api
from tests.support.api_clients import problem
from tests.support.oidc import (
    CLIENT_ID,
    CLIENT_SECRET,
    StandInProvider,
    signing_key,
    stand_in_provider,
)
from tests.support.people import principal_of

GRACE = {
    "email": "Grace@Example.org",
    "email_verified": True,
    "name": "Grace Hopper",
    "groups": ["Staff"],
}
CALLBACK = "/api/v1/auth/oidc/callback"


@pytest.fixture
def provider(settings) -> Iterator[StandInProvider]:
    with stand_in_provider() as provider:
        settings.OIDC_ENABLED = True
        settings.OIDC_ISSUER_URL = provider.issuer
        settings.OIDC_CLIENT_ID = CLIENT_ID
        settings.OIDC_CLIENT_SECRET = CLIENT_SECRET
        settings.OIDC_ADMIN_GROUPS = ("platform",)
        forget_discovered()
        provider.claims = dict(GRACE)
        yield provider


def begin(api: Api, **query: str) -> str:
    """Leave for the provider; the address."""
    answer = api.get("/api/v1/auth/oidc/login", query)
    assert answer.status_code == 302, answer.content
    return str(answer["Location"])


def come_back(api: Api, provider: StandInProvider, **query: str) -> Any:
    """The whole way there and back."""
    begun = provider.authorize(begin(api, **query))
    return api.get(CALLBACK, {"state": begun["state"], "code": "code-1"})


def told(answer: Any) -> dict[str, str]:
    """What stands behind the `#`."""
    return dict(parse_qsl(urlsplit(answer["Location"]).fragment))


def test_who_is_new_gets_an_account_and_a_session(api, provider):
    answer = come_back(api, provider, return_url="/suites?x=1")

    assert (answer.status_code, answer["Location"]) == (302, "/suites?x=1")
    assert answer["Cache-Control"] == "no-store"
    grace = User.objects.get(email="grace@example.org")
    assert (grace.full_name, grace.workspace.name) == ("Grace Hopper", "Grace's workspace")
    assert not grace.has_usable_password()
    assert not grace.is_admin
    assert grace.email_verified_at is not None
    me = api.me().json()
    assert me["user"]["email"] == "grace@example.org"


def test_the_request_holds_what_the_standards_ask_for(api, provider, settings):
    url = begin(api)

    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert url.startswith(f"{provider.issuer}/authorize?")
    assert query["response_type"] == "code"
    assert query["scope"] == "openid profile email groups"
    assert query["redirect_uri"] == settings.PUBLIC_API_URL + CALLBACK
    assert (query["code_challenge_method"], len(query["code_challenge"])) == ("S256", 43)
    cookie = api.client.cookies["partita_oidc_state"]
    assert (cookie["path"], cookie["max-age"]) == ("/api/v1/auth/oidc", 600)
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert query["state"] not in url.replace(query["state"], "", 1)
    assert api.get("/api/v1/auth/oidc/login")["Cache-Control"] == "no-store"


def test_userinfo_fills_what_the_token_leaves_out(api, provider):
    provider.claims, provider.userinfo = {}, dict(GRACE)

    come_back(api, provider)

    assert User.objects.get().email == "grace@example.org"


def test_userinfo_about_somebody_else_is_refused(api, provider):
    provider.claims, provider.userinfo = {}, GRACE | {"sub": "sub-2"}

    assert told(come_back(api, provider)) == {"error": "oidc_provider_error"}
    assert not User.objects.exists()


def test_one_browser_only_and_each_code_once(api, provider):
    begun = provider.authorize(begin(api))
    query = {"state": begun["state"], "code": "code-1"}
    stranger = Api(address="203.0.113.50")

    refused = stranger.get(CALLBACK, query)
    admitted = api.get(CALLBACK, query)
    again = api.get(CALLBACK, query)

    assert refused["Location"] == "/auth/callback#error=oidc_state_invalid"
    assert admitted["Location"] == "/"
    assert told(again) == {"error": "oidc_state_invalid"}


def test_a_code_that_was_exchanged_is_no_good_with_the_cookie_of_then_either(api, provider):
    begun = provider.authorize(begin(api))
    cookie = api.client.cookies["partita_oidc_state"].value
    query = {"state": begun["state"], "code": "code-1"}
    api.get(CALLBACK, query)
    thief = Api(address="203.0.113.50")
    thief.client.cookies["partita_oidc_state"] = cookie

    assert told(thief.get(CALLBACK, query)) == {"error": "oidc_provider_error"}
    assert thief.me().status_code == 401


@pytest.mark.parametrize(
    "spoilt",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another"},
        {"aud": [CLIENT_ID, "another"]},
        {"aud": [CLIENT_ID, "another"], "azp": "another"},
        {"iss": "https://issuer.example"},
        {"exp": 1_700_000_000},
        {"exp": None},
        {"iat": 4_000_000_000},
        {"sub": None},
    ],
    ids=str,
)
def test_a_token_that_is_not_for_this_sign_in_signs_nobody_in(api, provider, spoilt):
    provider.claims |= spoilt

    assert told(come_back(api, provider)) == {"error": "oidc_provider_error"}
    assert not User.objects.exists()
    assert api.me().status_code == 401


def test_a_token_with_another_key_or_algorithm_signs_nobody_in(api, provider):
    provider.published = signing_key("another").public_key()
    assert told(come_back(api, provider)) == {"error": "oidc_provider_error"}

    provider.published, provider.algorithm = None, "HS256"  # with the secret that both know
    assert told(come_back(api, provider)) == {"error": "oidc_provider_error"}

    assert not User.objects.exists()


def test_the_cookie_of_state_ends_after_ten_minutes_and_cannot_be_forged(
    api, provider, monkeypatch
):
    begun = provider.authorize(begin(api))
    value = api.client.cookies["partita_oidc_state"].value
    api.client.cookies["partita_oidc_state"] = value[:-2] + ("aa" if value[-2:] != "aa" else "bb")
    query = {"state": begun["state"], "code": "code-1"}
    assert told(api.get(CALLBACK, query)) == {"error": "oidc_state_invalid"}

    monkeypatch.setattr("apps.accounts.conf.OIDC_STATE_LIFE", timedelta(seconds=-1))
    assert told(come_back(api, provider)) == {"error": "oidc_state_invalid"}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"error": "access_denied"}, "oidc_denied"),
        ({"error": "server_error"}, "oidc_provider_error"),
        ({}, "oidc_provider_error"),
        ({"code": "x" * 5000}, "oidc_provider_error"),
    ],
    ids=["denied", "error", "nothing", "huge"],
)
def test_what_the_provider_reports_is_told(api, provider, query, code):
    begun = provider.authorize(begin(api))

    answer = api.get(CALLBACK, {"state": begun["state"], **query})

    assert told(answer) == {"error": code}
    assert api.client.cookies["partita_oidc_state"].value == ""


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"email": None}, "oidc_email_missing"),
        ({"email": "no address"}, "oidc_email_missing"),
        ({"email_verified": False}, "oidc_email_unverified"),
        ({"email_verified": None}, "oidc_email_unverified"),
        ({"email_verified": "true"}, "oidc_email_unverified"),
        ({"email_verified": 1}, "oidc_email_unverified"),
        ({"email_verified": [True]}, "oidc_email_unverified"),
    ],
    ids=str,
)
def test_only_verified_mail_makes_or_links_an_account(api, provider, claims, code):
    provider.claims |= claims
    provider.userinfo = {"sub": "sub-1"}

    assert told(come_back(api, provider)) == {"error": code}
    assert not User.objects.exists()


def test_an_account_that_nobody_had_proven_loses_what_was_set_up_under_it(api, provider):
    """Else whoever had signed up with the address of another would share the account."""
    squatter = Api(address="203.0.113.60")
    facts = {"fullName": "Not Grace", "email": "grace@example.org", "password": PASSWORD}
    squatter.token = squatter.auth("sign-up", facts).json()["token"]
    assert squatter.me().status_code == 200

    come_back(api, provider)

    assert api.me().json()["user"]["email"] == "grace@example.org"
    assert squatter.me().status_code == 401
    signed_in = {"email": "grace@example.org", "password": PASSWORD}
    assert problem(squatter.auth("sign-in", signed_in)) == (401, "invalid_credentials")
    assert UiSession.objects.count() == 1


def test_an_account_with_a_proven_address_keeps_its_password(api, provider):
    grace = sign_up(full_name="Grace", email="grace@example.org", password=PASSWORD)
    User.objects.filter(pk=grace.pk).update(email_verified_at=clock.now())

    come_back(api, provider)

    assert ExternalAccount.objects.get().user_id == grace.pk
    signed_in = {"email": "grace@example.org", "password": PASSWORD}
    assert Api().auth("sign-in", signed_in).status_code == 200


def test_who_is_linked_stays_linked_when_the_address_changes_there(api, provider):
    come_back(api, provider)
    provider.claims |= {"email": "hopper@example.org", "email_verified": False}

    assert come_back(api, provider)["Location"] == "/"

    assert User.objects.get().email == "grace@example.org"


def test_closed_sign_up_admits_only_who_is_invited(api, provider, settings, ada_row):
    settings.AUTH_SIGNUP_ENABLED = False
    selectors._cache.clear()
    assert told(come_back(api, provider)) == {"error": "sign_up_disabled"}

    principal = principal_of(ada_row, is_admin=False, session_hash="s")
    invite(principal, ada_row.workspace_id, role=Role.RUNNER, email="grace@example.org")
    assert come_back(api, provider)["Location"] == "/"

    grace = User.objects.get(email="grace@example.org")
    assert grace.workspace_id == ada_row.workspace_id
    assert Membership.objects.get(user=grace).role == Role.RUNNER
    assert not Invitation.objects.exists()


def test_groups_make_an_administrator_and_end_it(api, provider):
    provider.claims |= {"groups": ["staff", "PLATFORM"]}
    come_back(api, provider)
    assert User.objects.get().is_admin

    provider.claims |= {"groups": []}
    come_back(api, provider)
    assert not User.objects.get().is_admin


@pytest.mark.parametrize("groups", ["platform", "staff,platform", {"platform": 1}, ["x"], 7])
def test_groups_that_are_no_list_of_texts_make_no_administrator(api, provider, groups, caplog):
    provider.claims |= {"groups": groups}

    come_back(api, provider)

    assert not User.objects.get(email="grace@example.org").is_admin
    is_list = isinstance(groups, list)
    assert ("groups is not a list, and counts as empty" in caplog.text) is not is_list


def test_a_text_for_a_boolean_is_named_in_the_log(api, provider, caplog):
    provider.claims |= {"email_verified": "true"}

    come_back(api, provider)

    assert "email_verified is not a boolean, and counts as false" in caplog.text


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("iss", ["own", "other", None])
def test_the_issuer_of_the_callback_is_checked_where_it_is_sent_or_announced(
    api, provider, announced, iss
):
    provider.document = {"authorization_response_iss_parameter_supported": announced}
    forget_discovered()
    begun = provider.authorize(begin(api))
    named = {"own": provider.issuer, "other": "https://evil.example"}.get(iss or "")
    sent = {} if named is None else {"iss": named}

    answer = api.get(CALLBACK, {"state": begun["state"], "code": "code-1", **sent})

    if iss == "own" or (iss is None and not announced):
        assert User.objects.filter(email="grace@example.org").exists()
    else:
        assert told(answer) == {"error": "oidc_provider_error"}
        assert not User.objects.exists()


def test_an_administrator_made_here_is_not_demoted(api, provider):
    come_back(api, provider)
    User.objects.update(is_admin=True)

    come_back(api, provider)

    assert User.objects.get().is_admin


def test_a_disabled_account_stays_out(api, provider):
    come_back(api, provider)
    User.objects.update(is_active=False)

    assert told(come_back(Api(address="203.0.113.51"), provider)) == {"error": "account_disabled"}


def test_a_front_end_gets_a_code_for_tokens_once(api, provider, settings):
    settings.OIDC_FRONTEND_CALLBACK_URL = "https://app.example.org/back"
    settings.FRONTEND_URLS = ("https://app.example.org",)

    answer = come_back(api, provider, return_url="https://app.example.org/runs")

    assert answer["Location"].startswith("https://app.example.org/back#")
    assert told(answer)["return_url"] == "https://app.example.org/runs"
    assert "partita_session" not in api.client.cookies
    code = {"code": told(answer)["code"]}
    pair = Api().auth("oidc/exchange", code)
    assert pair.status_code == 200
    claims = jwt.decode(pair.json()["token"], options={"verify_signature": False})
    assert (claims["provider"], claims["groups"]) == ("oidc", ["Staff"])
    assert Api(token=pair.json()["token"]).me().json()["user"]["fullName"] == "Grace Hopper"
    assert problem(Api().auth("oidc/exchange", code)) == (401, "code_invalid")


def test_a_code_for_tokens_ends_after_ninety_seconds(api, provider, settings, monkeypatch):
    settings.OIDC_FRONTEND_CALLBACK_URL = "https://app.example.org/back"
    monkeypatch.setattr("apps.accounts.conf.EXCHANGE_CODE_LIFE", timedelta(seconds=-1))

    code = told(come_back(api, provider))["code"]

    assert problem(api.auth("oidc/exchange", {"code": code})) == (401, "code_invalid")


def test_a_provider_that_is_away_or_lies_about_itself_is_502(api, provider, settings):
    provider.document = {"issuer": "https://issuer.example"}
    assert problem(api.get("/api/v1/auth/oidc/login")) == (502, "oidc_provider_error")

    settings.OIDC_ISSUER_URL = "http://127.0.0.1:9"
    assert problem(api.get("/api/v1/auth/oidc/login")) == (502, "oidc_provider_error")


def test_what_is_not_set_is_named(api, settings):
    assert api.get("/api/v1/auth/sso/providers").json() == {"providers": []}
    answer = api.get("/api/v1/auth/oidc/login")
    assert problem(answer) == (404, "oidc_disabled")
    assert "OIDC_ENABLED" in answer.json()["detail"]

    settings.OIDC_ENABLED = True
    settings.OIDC_CLIENT_ID = "partita"
    answer = api.get("/api/v1/auth/oidc/login")
    assert problem(answer) == (404, "oidc_disabled")
    assert "OIDC_ISSUER_URL" in answer.json()["detail"]
    (shown,) = api.get("/api/v1/auth/sso/providers").json()["providers"]
    assert shown == {
        "providerId": "oidc",
        "name": "Single Sign-On",
        "buttonLabel": "Continue with Single Sign-On",
        "enabled": False,
        "hint": "OIDC_ISSUER_URL not set",
    }


def test_a_configured_provider_is_offered(api, provider, settings):
    settings.OIDC_PROVIDER_NAME = "Example"
    (shown,) = api.get("/api/v1/auth/config").json()["providers"]

    assert shown["enabled"] is True
    assert shown["startUrl"] == "/api/v1/auth/oidc/login"
    assert shown["buttonLabel"] == "Continue with Example"


def test_a_flow_that_cannot_end_is_refused_before_it_begins(api, provider):
    assert problem(api.get("/api/v1/auth/oidc/login", {"flow": "code"})) == (
        400,
        "invalid_parameter",
    )
    assert problem(api.get("/api/v1/auth/oidc/login", {"flow": "x"})) == (400, "invalid_parameter")


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("/suites?x=1#y", "/suites?x=1#y"),
        ("https://app.example.org/runs", "https://app.example.org/runs"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("https://app.example.org@evil.example", "/"),
        ("https://app.example.org.evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\nb", "/"),
        ("", "/"),
        ("/" + "x" * 3000, "/"),
        ("http://[", "/"),
    ],
)
def test_the_way_back_leads_nowhere_else(url, safe):
    assert safe_return_url(url, ["https://app.example.org"]) == safe


def test_two_first_sign_ins_at_once_make_one_account(provider, monkeypatch):
    """The one that comes second finds what the first has made."""
    identity = ExternalIdentity(
        provider="oidc",
        subject="sub-1",
        email="grace@example.org",
        email_verified=True,
        full_name="Grace",
    )
    real = find_user
    others: list[User | None] = []

    def find_while_another_signs_in(email: str) -> User | None:
        if not others:
            others.append(None)
            others.append(external_sign_in(identity))
            return None
        return real(email)

    monkeypatch.setattr(external_accounts, "find_user", find_while_another_signs_in)

    assert external_sign_in(identity) == others[1]
    assert (User.objects.count(), ExternalAccount.objects.count()) == (1, 1)
