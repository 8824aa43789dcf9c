"""Second factors: codes of an app, recovery codes, and what a password alone no longer opens."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pyotp
import pytest
from django.contrib.auth import authenticate
from django.db import close_old_connections, connection
from django.test import Client

from apps.accounts.domain.principal import Principal
from apps.accounts.models import RecoveryCode, SecondFactor, User
from apps.accounts.services import second_factor
from apps.accounts.services.administrators import operator
from apps.accounts.services.second_factor import (
    begin_second_factor,
    confirm_second_factor,
    remove_second_factor_of,
    replace_recovery_codes,
    second_factor_of,
)
from kernel.clock import now
from kernel.errors import PlatformError
from tests.apps.accounts.conftest import PASSWORD, Api

EMAIL, ADMIN_PASSWORD = "root@example.org", "swordfish"


@pytest.fixture
def root(admin) -> Principal:
    """The administrator, as a signed-in person."""
    return operator()


@pytest.fixture
def secret(root) -> str:
    """Of the app of the administrator, whose second factor is on."""
    made = begin_second_factor(root).secret
    confirm_second_factor(root, pyotp.TOTP(made).at(now() - timedelta(seconds=30)))
    return made


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(PlatformError) as caught:
        call()
    return caught.value.problem_code


def sign_in(**code: str):
    caller = Api(address=f"203.0.113.{uuid4().int % 200}")
    return caller.auth("sign-in", {"email": EMAIL, "password": ADMIN_PASSWORD, **code})


def test_the_password_alone_signs_nobody_in(secret):
    answer = sign_in()
    assert (answer.status_code, answer.json()["code"]) == (401, "second_factor_required")
    assert authenticate(username=EMAIL, password=ADMIN_PASSWORD) is None


def test_with_the_code_of_the_app_it_does(secret):
    assert sign_in(code=pyotp.TOTP(secret).now()).status_code == 200


def test_a_wrong_password_never_asks_for_a_code(secret):
    answer = Api().auth("sign-in", {"email": EMAIL, "password": "wrong", "code": "000000"})
    assert answer.json()["code"] == "invalid_credentials"


def test_a_code_works_once(secret):
    code = pyotp.TOTP(secret).now()
    assert sign_in(code=code).status_code == 200
    assert sign_in(code=code).json()["code"] == "second_factor_invalid"


def test_a_code_of_a_minute_ago_is_too_old(secret, root):
    old = pyotp.TOTP(secret).at(now() - timedelta(seconds=90))
    assert sign_in(code=old).json()["code"] == "second_factor_invalid"


def test_clocks_may_be_half_a_minute_apart(secret):
    assert sign_in(code=pyotp.TOTP(secret).at(now() + timedelta(seconds=30))).status_code == 200


def test_a_recovery_code_works_once_however_it_is_typed(secret, root):
    codes = replace_recovery_codes(root, pyotp.TOTP(secret).now())
    assert len(set(codes)) == 10
    typed = codes[0].upper().replace("-", " ")
    assert sign_in(code=typed).status_code == 200
    assert sign_in(code=codes[0]).json()["code"] == "second_factor_invalid"
    assert second_factor_of(root.user_id).codes_left == 9


def test_new_recovery_codes_end_the_old_ones(secret, root):
    old = replace_recovery_codes(root, pyotp.TOTP(secret).now())
    replace_recovery_codes(root, old[0])
    assert sign_in(code=old[1]).json()["code"] == "second_factor_invalid"


def test_ten_wrong_codes_lock_the_account_for_every_client(secret):
    for _ in range(10):
        assert sign_in(code="000000").json()["code"] == "second_factor_invalid"
    right = sign_in(code=pyotp.TOTP(secret).now())
    assert (right.status_code, right.json()["code"]) == (429, "account_locked")
    assert int(right["Retry-After"]) > 0


def test_until_it_is_confirmed_the_password_is_enough(root):
    setup = begin_second_factor(root)
    assert sign_in().status_code == 200
    assert refused(lambda: confirm_second_factor(root, "000000")) == "second_factor_invalid"
    assert sign_in().status_code == 200
    assert setup.qr_code.startswith("<svg")


def test_while_it_is_on_it_cannot_be_replaced_without_a_code(secret, root):
    assert refused(lambda: begin_second_factor(root)) == "validation_failed"
    wrong = lambda: second_factor.remove_second_factor(root, "000000")  # noqa: E731
    assert refused(wrong) == "second_factor_invalid"
    assert second_factor_of(root.user_id).is_on


def test_it_is_turned_off_by_a_code(secret, root):
    second_factor.remove_second_factor(root, pyotp.TOTP(secret).now())
    assert sign_in().status_code == 200
    assert not RecoveryCode.objects.exists()


def test_an_administrator_turns_it_off_for_who_lost_everything(secret, root):
    remove_second_factor_of(root.user_id)
    assert sign_in().status_code == 200
    assert refused(lambda: remove_second_factor_of(root.user_id)) == "not_found"


def test_the_store_holds_neither_secret_nor_codes(secret, root):
    codes = replace_recovery_codes(root, pyotp.TOTP(secret).now())
    rows = str([*SecondFactor.objects.values(), *RecoveryCode.objects.values()])
    assert secret not in rows
    assert not any(code in rows or code.replace("-", "") in rows for code in codes)


def test_a_key_of_before_still_reads_the_secret(secret, settings):
    settings.ENCRYPTION_KEYS = ["a newer key", *settings.ENCRYPTION_KEYS]
    assert sign_in(code=pyotp.TOTP(secret).now()).status_code == 200


def test_an_api_token_changes_no_second_factor(root):
    program = replace(root, token_jti="", session_hash="", api_token_hash="x")
    assert refused(lambda: begin_second_factor(program)) == "session_required"


@pytest.mark.django_db(transaction=True)
def test_of_two_uses_of_a_code_at_once_one_wins(secret):
    user = User.objects.get(email=EMAIL)
    code = pyotp.TOTP(secret).now()

    def use(_number: int) -> bool:
        try:
            second_factor.check_second_factor(user, code)
        except PlatformError:
            return False
        finally:
            close_old_connections()
            connection.close()
        return True

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(use, range(2))) == [False, True]


class TestPages:
    @pytest.fixture(autouse=True)
    def _site(self, settings) -> None:
        settings.ROOT_URLCONF = "platform_site.urls"

    def half_signed_in(self) -> tuple[Client, str]:
        client = Client()
        page = client.post(
            "/sign-in", {"email": EMAIL, "password": ADMIN_PASSWORD, "next": "/suites"}
        ).content.decode()
        found = re.search(r'name="half" value="([^"]+)"', page)
        assert found, page
        return client, found[1]

    def test_the_code_is_asked_for_after_the_password(self, secret):
        client, half = self.half_signed_in()
        assert client.get("/account").status_code == 302, "not yet"

        wrong = client.post("/sign-in", {"half": half, "code": "000000", "next": "/suites"})
        assert wrong.status_code == 401
        assert "The code is wrong" in wrong.content.decode()
        right = client.post(
            "/sign-in", {"half": half, "code": pyotp.TOTP(secret).now(), "next": "/suites"}
        )
        assert right["Location"] == "/suites"
        assert client.get("/account").status_code == 200

    def test_half_a_sign_in_ends_with_the_password_and_after_five_minutes(
        self, secret, monkeypatch
    ):
        client, half = self.half_signed_in()
        code = {"half": half, "code": pyotp.TOTP(secret).now()}
        monkeypatch.setattr("apps.accounts.services.sign_in._HALF_LIFE", timedelta(seconds=-1))
        assert "sign in again" in client.post("/sign-in", code).content.decode()
        monkeypatch.undo()
        user = User.objects.get(email=EMAIL)
        user.set_password("Another-Horse-2")
        user.save()
        assert "sign in again" in client.post("/sign-in", code).content.decode()
        assert client.post("/sign-in", {**code, "half": "x"}).status_code == 401

    def test_the_account_page_sets_it_up_and_shows_the_codes_once(self, admin):
        client = Client()
        client.post("/sign-in", {"email": EMAIL, "password": ADMIN_PASSWORD})
        page = client.post("/account/second-factor/begin").content.decode()
        found = re.search(r"data-secret>(\w+)<", page)
        assert found
        assert "<svg" in page

        done = client.post(
            "/account/second-factor/confirm", {"code": pyotp.TOTP(found[1]).now()}
        ).content.decode()
        codes = re.search(r"data-recovery-codes>([^<]+)<", done)
        assert codes
        assert len(codes[1].split()) == 10
        again = client.get("/account").content.decode()
        assert codes[1].split()[0] not in again
        assert found[1] not in again
        assert "10 recovery" in again

    def test_other_sign_ins_are_listed_and_ended_one_by_one(self, admin):
        here, there = (
            Client(headers={"User-Agent": "Here/1"}),
            Client(headers={"User-Agent": "<b>There</b>"}),
        )
        for each in (here, there):
            each.post("/sign-in", {"email": EMAIL, "password": ADMIN_PASSWORD})
        page = here.get("/account").content.decode()
        assert "Here/1" in page
        assert "&lt;b&gt;There" in page
        assert "API client" in page, "of the fixture"
        other = there.session
        ids = re.findall(r'name="sign_in" value="([^"]+)"', page)
        assert len(ids) == 2, "this one has no button"
        for each in ids:
            assert here.post("/account/sign-ins/end", {"sign_in": each}).status_code == 303
        assert other
        assert there.get("/account").status_code == 302
        assert here.get("/account").status_code == 200
        assert admin.me().status_code == 401

    def test_nobody_ends_the_sign_in_of_another(self, admin, signed_up):
        stranger = Client()
        stranger.post("/sign-in", {"email": "ada@example.org", "password": PASSWORD})
        mine = Client()
        mine.post("/sign-in", {"email": EMAIL, "password": ADMIN_PASSWORD})
        theirs = re.findall(
            r'name="sign_in" value="([^"]+)"', stranger.get("/account").content.decode()
        )
        assert theirs
        for each in theirs:
            assert mine.post("/account/sign-ins/end", {"sign_in": each}).status_code == 404
