"""The cookie of the pages for people (reference: control-plane 3)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import authenticate
from django.test import AsyncClient, Client

from apps.accounts import selectors
from apps.accounts.models import UiSession, User
from apps.accounts.sessions import SessionStore
from kernel.clock import now, rfc3339
from tests.apps.accounts.conftest import PASSWORD, Api
from tests.support.api_clients import problem

SESSION = "partita_session"


def sign_in(client: Client, **changes: str):
    form = {"email": "ada@example.org", "password": PASSWORD} | changes
    return client.post("/page/sign-in", form, REMOTE_ADDR="203.0.113.8")


def test_the_cookie_is_http_only_and_lax(browser):
    cookie = browser.cookies[SESSION]

    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert not cookie["secure"]
    assert cookie["max-age"] == 7 * 24 * 3600


def test_on_https_the_cookie_is_secure(signed_up, settings):
    settings.SESSION_COOKIE_SECURE = True
    client = Client()

    sign_in(client)

    assert client.cookies[SESSION]["secure"]


def test_the_cookie_is_a_credential_of_the_api(browser):
    assert browser.get("/api/v1/auth/me").json()["user"]["email"] == "ada@example.org"


def test_me_tells_the_end_of_the_session(browser):
    end = rfc3339(UiSession.objects.get().expires_at)

    assert browser.get("/api/v1/auth/me").json()["expiresAt"] == end


def test_json_routes_never_set_the_cookie(api, signed_up):
    api.auth("sign-in", {"email": "ada@example.org", "password": PASSWORD})

    assert SESSION not in api.client.cookies


def test_an_unsafe_method_needs_the_csrf_token(browser):
    browser.cookies["csrftoken"] = "a" * 32

    def post(**headers: str):
        return browser.post(
            "/api/v1/auth/stream-tickets", {}, content_type="application/json", headers=headers
        )

    assert problem(post()) == (403, "csrf_failed")
    assert problem(post(**{"X-CSRFToken": "b" * 32})) == (403, "csrf_failed")
    assert post(**{"X-CSRFToken": "a" * 32}).status_code == 201


def test_another_origin_is_refused_whatever_token_it_brings(browser):
    browser.cookies["csrftoken"] = "a" * 32

    answer = browser.post(
        "/api/v1/auth/stream-tickets",
        {},
        content_type="application/json",
        headers={"X-CSRFToken": "a" * 32, "Origin": "https://evil.example"},
    )

    assert problem(answer) == (403, "csrf_failed")


def test_bearer_requests_need_no_csrf_token(ada, browser):
    answer = browser.post(
        "/api/v1/auth/stream-tickets",
        {},
        content_type="application/json",
        headers={"Authorization": f"Bearer {ada.token}"},
    )

    assert answer.status_code == 201


def test_a_bearer_header_hides_the_cookie(browser):
    answer = browser.get("/api/v1/auth/me", headers={"Authorization": "Bearer stale"})

    assert problem(answer) == (401, "token_invalid")


def test_signing_in_begins_a_session_under_a_new_key(signed_up):
    client = Client()
    sign_in(client)
    first = client.cookies[SESSION].value
    sign_in(client)

    assert client.cookies[SESSION].value != first
    assert not SessionStore().exists(first)


def test_a_planted_session_key_is_not_taken_over(signed_up):
    client = Client()
    client.cookies[SESSION] = "planted-by-somebody-else"

    sign_in(client)

    assert client.cookies[SESSION].value != "planted-by-somebody-else"


def test_signing_out_ends_the_session_and_its_cookie(browser):
    """Invariant 18."""
    stolen = browser.cookies[SESSION].value

    browser.get("/page/sign-out")

    assert not browser.cookies[SESSION].value
    browser.cookies[SESSION] = stolen
    assert problem(browser.get("/api/v1/auth/me")) == (401, "unauthenticated")


def test_the_json_sign_out_ends_a_session_too(browser):
    browser.cookies["csrftoken"] = "a" * 32

    answer = browser.post(
        "/api/v1/auth/sign-out",
        {},
        content_type="application/json",
        headers={"X-CSRFToken": "a" * 32},
    )

    assert answer.status_code == 200
    assert problem(browser.get("/api/v1/auth/me")) == (401, "unauthenticated")


def test_signing_out_everywhere_ends_the_sessions_of_all_browsers(browser):
    """Invariant 18."""
    second = Client()
    sign_in(second)
    browser.cookies["csrftoken"] = "a" * 32
    path = "/api/v1/auth/sign-out-everywhere"

    forged = browser.post(path, {}, content_type="application/json")
    answer = browser.post(
        path, {}, content_type="application/json", headers={"X-CSRFToken": "a" * 32}
    )

    assert problem(forged) == (403, "csrf_failed")
    assert answer.status_code == 200
    for client in (browser, second):
        assert problem(client.get("/api/v1/auth/me")) == (401, "unauthenticated")


def test_a_session_ends_after_its_time(browser):
    UiSession.objects.update(expires_at=now() - timedelta(seconds=1))

    assert problem(browser.get("/api/v1/auth/me")) == (401, "unauthenticated")


def test_an_account_that_was_disabled_has_no_session(browser):
    """Invariant 18."""
    from apps.accounts import selectors

    User.objects.update(is_active=False)
    selectors._cache.clear()

    assert problem(browser.get("/api/v1/auth/me")) == (401, "unauthenticated")


def test_session_keys_are_stored_hashed(browser):
    """Invariant 19."""
    assert browser.cookies[SESSION].value not in str(UiSession.objects.values())


@pytest.mark.parametrize("value", ["x", "", "\u00ff" * 50, "a" * 5000])
def test_odd_cookies_are_nobody(api, value):
    """Invariant 33."""
    api.client.cookies[SESSION] = value

    assert problem(api.me()) == (401, "unauthenticated")


def test_sign_up_by_form_signs_in(api):
    form = {"fullName": "Bob", "email": "bob@example.org", "password": PASSWORD}

    assert api.client.post("/page/sign-up", form).status_code == 200

    assert api.me().json()["user"]["email"] == "bob@example.org"


def test_forms_obey_the_rules_of_their_json_twins(api, signed_up):
    form = {"fullName": "Bob", "email": "bob@example.org", "password": "weak"}

    assert problem(api.client.post("/page/sign-up", form)) == (400, "weak_password")
    assert problem(sign_in(api.client, password="Wrong-Horse-1")) == (401, "invalid_credentials")


def test_forms_count_with_their_json_twins(api, signed_up):
    wrong = {"email": "ada@example.org", "password": "Wrong-Horse-1"}
    for _ in range(5):
        Api(address="203.0.113.8").auth("sign-in", wrong)
        sign_in(api.client, password="Wrong-Horse-1")

    assert problem(sign_in(api.client)) == (429, "rate_limited")


def test_nul_in_a_form_is_a_fault_of_the_form(api):
    """Invariant 33."""
    form = {"fullName": "B\0b", "email": "bob\0@example.org", "password": PASSWORD}

    assert problem(api.client.post("/page/sign-up", form)) == (400, "validation_failed")
    assert problem(sign_in(api.client, email="a\0@b.c")) == (401, "invalid_credentials")


def test_reading_a_session_costs_no_write(browser, django_assert_num_queries):
    browser.get("/page/whoami")

    with django_assert_num_queries(1):  # the session; the account is remembered
        browser.get("/page/whoami")


def test_plain_async_views_ask_the_same_way(signed_up):
    get = async_to_sync(AsyncClient().get)

    nobody = get("/plain")
    ada = get("/plain", headers={"Authorization": f"Bearer {signed_up['token']}"})

    assert problem(nobody) == (401, "unauthenticated")
    assert ada.json() == {"email": "ada@example.org"}


def test_the_stage_sets_the_cookie_under_asgi_too(signed_up):
    client = AsyncClient()
    form = {"email": "ada@example.org", "password": PASSWORD}

    async_to_sync(client.post)("/page/sign-in", form)

    assert async_to_sync(client.get)("/plain").json() == {"email": "ada@example.org"}


def test_djangos_user_is_the_account_of_the_session(browser, ada_row):
    request = browser.get("/page/whoami").wsgi_request

    assert request.user == ada_row
    assert ada_row.last_login is not None


def test_a_session_ends_when_the_password_changes(browser, ada_row):
    assert browser.get("/page/whoami").json()["email"] == ada_row.email
    ada_row.set_password("Another-Horse-2")
    ada_row.save()
    selectors._cache.clear()

    answer = browser.get("/page/whoami")

    assert answer.json()["email"] is None
    assert answer.wsgi_request.user.is_anonymous


def test_authenticate_of_django_obeys_the_lock(api, signed_up, rf):
    request = rf.post("/", REMOTE_ADDR="203.0.113.50")
    email = signed_up["user"]["email"]
    assert authenticate(request, username=email, password=PASSWORD) is not None
    for _ in range(10):
        assert authenticate(request, username=email, password="wrong") is None

    assert authenticate(request, username=email, password=PASSWORD) is None
