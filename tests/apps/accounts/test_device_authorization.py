"""Sign-in of a program by a code that a person confirms (RFC 8628; reference: control-plane 3)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts import selectors
from apps.accounts.lifespan import purge_expired
from apps.accounts.models import ApiToken, DeviceAuthorization, LimitHit, Membership, User
from apps.accounts.services import api_tokens
from apps.accounts.services.device_authorization import redeem_device_code
from apps.accounts.services.token_pairs import end_every_sign_in
from kernel.clock import now
from kernel.errors import PlatformError
from tests.apps.accounts.conftest import PASSWORD, Api
from tests.support.api_clients import problem
from tests.support.threads import at_once

pytestmark = pytest.mark.store

WORDS = "partita 1.2 on ann-laptop"
DECISION = {"scope": "run", "days": "30"}


@pytest.fixture(autouse=True)
def _pages(_house, settings) -> None:
    settings.ROOT_URLCONF = "platform_site.urls"  # the page links to all others


@pytest.fixture
def browser(signed_up) -> Client:
    """Ada's browser, which checks the tokens of forms."""
    client = Client(enforce_csrf_checks=True)
    form = {"email": "ada@example.org", "password": PASSWORD}
    assert post(client, "/sign-in", form).status_code == 302
    return client


def post(client: Client, path: str, form: dict[str, str]) -> Any:
    """Send a form with the token that the page of its form has."""
    page = client.get("/device", follow=True)
    return client.post(path, {**form, "csrfmiddlewaretoken": str(page.context["csrf_token"])})


def begun(address: str = "198.51.100.4") -> Any:
    answer = Api(address=address).auth("device", {"client": WORDS})
    assert answer.status_code == 200, answer.content
    return answer.json()


def fetch(codes: Any) -> Any:
    return Api(address="198.51.100.4").auth("device/token", {"deviceCode": codes["deviceCode"]})


def decide(browser: Client, codes: Any, decision: str = "approve", **form: str) -> Any:
    """Press a button of the page, as its form does."""
    return post(browser, f"/device/{decision}", {"code": codes["userCode"], **DECISION, **form})


def wait(codes: Any) -> None:
    """Let the interval of a program pass."""
    DeviceAuthorization.objects.filter(client=WORDS).update(
        polled_at=now() - timedelta(seconds=100)
    )


def test_what_a_person_approves_brings_a_token_once(browser):
    codes = begun()
    assert problem(fetch(codes)) == (400, "authorization_pending")

    page = decide(browser, codes)
    fetched = fetch(codes)

    assert page.status_code == 200, page.content
    token = fetched.json()
    assert fetched["Cache-Control"] == "no-store"
    assert (token["name"], token["scope"], token["email"]) == (WORDS, "run", "ada@example.org")
    assert token["workspace"]["name"] == "Ada's workspace"
    assert Api(token=token["token"]).me().json()["role"] == "runner"
    days_left = (ApiToken.objects.get().expires_at - now()).total_seconds() / 86_400
    assert days_left == pytest.approx(30, abs=0.1)
    assert problem(fetch(codes)) == (400, "expired_token")


def test_the_codes_are_as_programs_expect_them(settings):
    settings.PUBLIC_API_URL = "https://partita.example"

    codes = begun()

    user_code = codes["userCode"]
    assert len(codes["deviceCode"]) == 43
    assert codes["verificationUri"] == "https://partita.example/device"
    assert codes["verificationUriComplete"] == f"https://partita.example/device?code={user_code}"
    assert (codes["expiresIn"], codes["interval"]) == (600, 5)


def test_the_store_holds_no_code_that_brings_a_token(browser):
    """Invariant 19."""
    codes = begun()
    decide(browser, codes)
    kept = str(list(DeviceAuthorization.objects.values()))
    token = fetch(codes).json()["token"]

    assert codes["deviceCode"] not in kept
    assert token.removeprefix("pat_") not in kept + str(list(ApiToken.objects.values()))


def test_who_asks_too_often_is_slowed_down_and_gets_the_token_all_the_same(browser):
    codes = begun()
    fetch(codes)

    hasty = [fetch(codes), fetch(codes)]

    assert [problem(one) for one in hasty] == [(400, "slow_down")] * 2
    assert [one.json()["interval"] for one in hasty] == [10, 15]
    wait(codes)
    assert problem(fetch(codes)) == (400, "authorization_pending")
    decide(browser, codes)
    assert fetch(codes).status_code == 200


def test_what_a_person_denies_stays_denied(browser):
    codes = begun()

    decide(browser, codes, "deny")

    assert problem(fetch(codes)) == (400, "access_denied")
    assert decide(browser, codes).status_code == 404
    assert problem(fetch(codes)) == (400, "access_denied")
    assert not ApiToken.objects.exists()


def test_a_code_ends_after_ten_minutes_approved_or_not(browser):
    waiting, approved = begun(), begun()
    decide(browser, approved)
    DeviceAuthorization.objects.update(expires_at=now())

    assert problem(fetch(waiting)) == (400, "expired_token")
    assert problem(fetch(approved)) == (400, "expired_token")
    assert decide(browser, waiting).status_code == 404
    assert not ApiToken.objects.exists()


def test_an_unknown_device_code_is_expired(db):
    assert problem(fetch({"deviceCode": "x" * 43})) == (400, "expired_token")


def test_requests_that_ended_are_cleared_away(db):
    """Invariant 38."""
    begun()
    kept = begun()
    ended = DeviceAuthorization.objects.order_by("created_at")[0]
    DeviceAuthorization.objects.filter(pk=ended.pk).update(expires_at=now() - timedelta(days=1))

    purge_expired()

    (left,) = DeviceAuthorization.objects.all()
    assert left.user_code == kept["userCode"].replace("-", "")


def test_one_address_has_thirty_requests_at_most_and_others_are_free():
    for _ in range(30):
        begun("2001:db8::1")

    refused = Api(address="2001:db8::2").auth("device", {"client": WORDS})

    assert problem(refused) == (429, "rate_limited")
    assert int(refused["Retry-After"]) > 0
    assert DeviceAuthorization.objects.count() == 30
    begun("2001:db8:0:1::1")


def test_nobody_finds_codes_by_trying(browser):
    codes = begun()
    for _ in range(30):
        assert browser.get("/device", {"code": "BBBB-BBBB"}).status_code == 404

    answer = browser.get("/device", {"code": codes["userCode"]})

    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    assert decide(browser, codes).status_code == 429
    assert problem(fetch(codes)) == (400, "authorization_pending")
    LimitHit.objects.all().delete()
    assert browser.get("/device", {"code": codes["userCode"]}).status_code == 200


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [("viewer", "read", 200), ("viewer", "run", 403), ("runner", "run", 200),
     ("runner", "admin", 403), ("admin", "admin", 200)],
)  # fmt: skip
def test_nobody_gives_a_program_more_than_they_may(browser, role: str, scope: str, status: int):
    Membership.objects.update(role=role)
    selectors._cache.clear()
    codes = begun()

    assert decide(browser, codes, scope=scope).status_code == status

    assert fetch(codes).status_code == (200 if status == 200 else 400)


def test_the_token_has_the_end_that_was_chosen_and_no_other(browser):
    codes = begun()
    for days in ("0", "366", "", "x"):
        assert decide(browser, codes, days=days).status_code == 400

    assert decide(browser, codes, days="7").status_code == 200

    assert fetch(codes).json()["expiresAt"] < (now() + timedelta(days=8)).isoformat()


def sign_out_everywhere(_browser: Client, user: User) -> None:
    api = Api().auth("sign-in", {"email": user.email, "password": PASSWORD}).json()
    assert Api(token=api["token"]).auth("sign-out-everywhere").status_code == 200


def sign_out(browser: Client, _user: User) -> None:
    assert post(browser, "/sign-out", {}).status_code == 302


def disable(_browser: Client, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


@pytest.mark.parametrize("end", [sign_out_everywhere, sign_out, disable])
def test_an_approval_ends_with_the_sign_in_that_gave_it(browser, ada_row, end: Any):
    """Invariant 18."""
    codes = begun()
    decide(browser, codes)

    end(browser, ada_row)

    assert problem(fetch(codes)) == (400, "access_denied")
    assert problem(fetch(codes)) == (400, "expired_token")
    assert not ApiToken.objects.exists()


def test_a_store_that_came_back_older_has_no_approvals(browser):
    codes = begun()
    decide(browser, codes)

    end_every_sign_in()

    assert problem(fetch(codes)) == (400, "expired_token")


def test_one_token_too_many_is_said_on_the_page(browser, monkeypatch):
    codes = begun()
    monkeypatch.setattr(api_tokens, "_MAX_TOKENS", 0)

    answer = decide(browser, codes)

    assert answer.status_code == 400
    assert "you have 0 API tokens already" in answer.content.decode().lower().replace("api", "API")
    assert problem(fetch(codes)) == (400, "authorization_pending")


def test_an_api_token_confirms_nothing(ada):
    made = ada.auth("tokens", {"name": "stolen", "scope": "admin"}).json()
    codes = begun()

    form = {"code": codes["userCode"], **DECISION}
    bearer = {"Authorization": f"Bearer {made['token']}"}
    answer = Client().post("/device/approve", form, headers=bearer)

    assert (answer.status_code, answer["Location"][:8]) == (302, "/sign-in")
    assert problem(fetch(codes)) == (400, "authorization_pending")


def test_each_step_is_audited_with_who_decided_and_without_a_code(browser, signed_up, audit):
    """Invariant 19."""
    codes, refused = begun(), begun()
    decide(browser, codes)
    decide(browser, refused, "deny")
    token = fetch(codes).json()["token"]

    lines = [json.loads(line) for line in audit()]
    by_path = {line["path"]: line.get("userId") for line in lines}
    ada = signed_up["user"]["userId"]
    assert by_path["/device/approve"] == by_path["/device/deny"] == ada
    assert by_path["/api/v1/auth/device/token"] == ada
    assert by_path["/api/v1/auth/device"] is None
    for secret in (codes["deviceCode"], codes["userCode"], token, WORDS):
        assert secret not in str(lines)


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_the_forms_need_their_token(browser, decision: str):
    codes = begun()

    answer = browser.post(f"/device/{decision}", {"code": codes["userCode"], **DECISION})

    assert answer.status_code == 403
    assert problem(fetch(codes)) == (400, "authorization_pending")


@pytest.mark.parametrize("body", [{}, {"client": ""}, {"client": "x" * 81}, {"client": "a\nb"},
                                  {"client": 1}, {"client": WORDS, "scope": "run"}])  # fmt: skip
def test_a_request_that_says_nothing_of_itself_is_refused(db, body: dict[str, object]):
    assert problem(Api().auth("device", body)) == (400, "validation_failed")
    assert not DeviceAuthorization.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_many_who_fetch_at_once_one_gets_the_token(browser):
    codes = begun()
    decide(browser, codes)

    def redeem() -> str:
        try:
            redeem_device_code(codes["deviceCode"])
        except PlatformError as error:
            return error.problem_code
        return "token"

    outcomes = at_once([redeem] * 6)

    assert sorted(outcomes) == ["expired_token"] * 5 + ["token"]
    assert ApiToken.objects.count() == 1
