"""Rate limits and the lockout (reference: control-plane 1.2, 3)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from apps.accounts.api import limit_rate
from apps.accounts.domain.errors import TooManyAttempts
from apps.accounts.models import LimitHit
from apps.accounts.services import password_reset, rate_limits
from apps.accounts.services.rate_limits import count_attempt
from kernel.clock import now
from tests.apps.accounts.conftest import PASSWORD, Api
from tests.support.api_clients import problem
from tests.support.threads import at_once

RIGHT = {"email": "ada@example.org", "password": PASSWORD}
WRONG = {"email": "ada@example.org", "password": "Wrong-Horse-1"}


def pass_time(seconds: float) -> None:
    LimitHit.objects.update(expires_at=F("expires_at") - timedelta(seconds=seconds))


def statuses(answers) -> list[int]:
    return [answer.status_code for answer in answers]


def test_five_sign_ups_a_minute_and_client(api):
    def sign_up(n: int):
        return api.auth(
            "sign-up", {"fullName": "A", "email": f"a{n}@example.org", "password": PASSWORD}
        )

    assert statuses(sign_up(n) for n in range(5)) == [201] * 5
    refused = sign_up(5)
    assert problem(refused) == (429, "rate_limited")
    assert 1 <= int(refused["Retry-After"]) <= 60
    api.address = "203.0.113.20"
    assert sign_up(5).status_code == 201


def test_sign_in_refresh_and_exchange_count_together(api):
    for _ in range(4):
        api.auth("sign-in", WRONG)
        api.auth("refresh", {"refreshToken": "x"})
    api.auth("oidc/exchange", {"code": "x"})
    api.auth("oidc/exchange", {})

    assert problem(api.auth("refresh", {"refreshToken": "x"})) == (429, "rate_limited")
    assert problem(api.auth("sign-in", RIGHT)) == (429, "rate_limited")


def test_forgot_and_reset_count_together(api):
    for _ in range(3):
        api.auth("forgot-password", {"email": "ada@example.org"})
        api.auth("reset-password", {"token": "x", "password": "y"})

    assert problem(api.auth("forgot-password", {"email": "x"})) == (429, "rate_limited")


def test_the_minute_slides(api, signed_up):
    for n in range(10):
        api.auth("sign-in", RIGHT)
        if n == 4:
            pass_time(40)

    assert problem(api.auth("sign-in", RIGHT)) == (429, "rate_limited")
    pass_time(21)  # the first five are over a minute old, the last five are not
    assert statuses(api.auth("sign-in", RIGHT) for _ in range(6)) == [200] * 5 + [429]


def test_the_answer_says_when_to_come_back():
    for _ in range(3):
        assert count_attempt("b", "k", limit=3, window=timedelta(minutes=1)) == 0
    pass_time(50)

    wait_s = count_attempt("b", "k", limit=3, window=timedelta(minutes=1))

    assert 9 <= wait_s <= 10


def test_a_refused_attempt_does_not_count():
    limit_rate("b", "k", 1)
    for _ in range(3):
        with pytest.raises(TooManyAttempts):
            limit_rate("b", "k", 1)

    assert LimitHit.objects.count() == 1


def test_keys_and_buckets_are_apart():
    limit_rate("b", "k", 1)

    limit_rate("b", "other", 1)
    limit_rate("other", "k", 1)


def test_a_trusted_proxy_speaks_for_its_clients(api, settings, signed_up):
    settings.TRUSTED_PROXIES = ("203.0.113.0/24",)

    def sign_in(forwarded: str):
        return api.auth("sign-in", RIGHT, **{"X-Forwarded-For": forwarded})

    assert statuses(sign_in("198.51.100.1, 203.0.113.99") for _ in range(10)) == [200] * 10
    assert sign_in("6.6.6.6, 198.51.100.1").status_code == 429
    assert sign_in("198.51.100.1, 198.51.100.2").status_code == 200


def test_a_forwarded_address_of_a_stranger_is_not_believed(api, signed_up):
    def sign_in(n: int):
        return api.auth("sign-in", RIGHT, **{"X-Forwarded-For": f"198.51.100.{n}"})

    assert statuses(sign_in(n) for n in range(11)) == [200] * 10 + [429]


def test_ten_failures_lock_the_mail_for_this_client(api, signed_up):
    for _ in range(10):
        assert problem(api.auth("sign-in", WRONG)) == (401, "invalid_credentials")
    pass_time(60)  # the rate limit is over, the lock is not

    locked = api.auth("sign-in", RIGHT)

    assert problem(locked) == (429, "account_locked")
    assert 60 < int(locked["Retry-After"]) <= 540
    assert Api(address="203.0.113.30").auth("sign-in", RIGHT).status_code == 200


def test_the_lock_ends_ten_minutes_after_the_failures(api, signed_up):
    for _ in range(10):
        api.auth("sign-in", WRONG)
    pass_time(601)

    assert api.auth("sign-in", RIGHT).status_code == 200


def failures(count: int, *, of: dict[str, str] = WRONG, network: int = 1) -> list[Any]:
    """Try wrong passwords, each from an address of its own."""
    return [
        Api(address=f"198.{network}.{n // 250}.{n % 250 + 1}").auth("sign-in", of)
        for n in range(count)
    ]


def stranger() -> Api:
    return Api(address="192.0.2.200")


@pytest.fixture
def frozen(monkeypatch) -> None:
    """Time passes by `pass_time` only, however slow the machine is."""
    moment = now()
    monkeypatch.setattr(rate_limits, "now", lambda: moment)


@pytest.mark.slow
def test_failures_from_many_addresses_slow_the_account(signed_up, frozen):
    admitted = [problem(answer)[0] for answer in failures(108)].count(401)

    assert admitted == 10
    refused = stranger().auth("sign-in", RIGHT)
    assert problem(refused) == (429, "account_locked")
    wait_s = int(refused["Retry-After"])
    assert 0 < wait_s <= 300
    pass_time(wait_s)
    assert stranger().auth("sign-in", RIGHT).status_code == 200


def test_the_delay_doubles_up_to_five_minutes(signed_up, frozen):
    assert statuses(failures(10)) == [401] * 10
    waits = []
    for n in range(11):
        refused = stranger().auth("sign-in", WRONG)
        waits.append(int(refused["Retry-After"]))
        pass_time(waits[-1])
        assert statuses(failures(1, network=n + 2)) == [401]

    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_an_attempt_that_has_to_wait_makes_nobody_wait_longer(signed_up, frozen):
    failures(10)
    pass_time(1)
    failures(1, network=2)

    assert {int(each["Retry-After"]) for each in failures(30, network=3)} == {2}


def test_where_the_owner_signed_in_before_nobody_waits(api, signed_up, frozen):
    assert api.auth("sign-in", RIGHT).status_code == 200
    failures(40)

    assert api.auth("sign-in", RIGHT).status_code == 200


def test_an_ipv6_client_is_known_by_its_network(signed_up, frozen):
    home = Api(address="2001:db8:1:2::10")
    assert home.auth("sign-in", RIGHT).status_code == 200
    failures(40)

    assert Api(address="2001:db8:1:2:aaaa::9").auth("sign-in", RIGHT).status_code == 200
    assert Api(address="2001:db8:1:3::10").auth("sign-in", RIGHT).status_code == 429


def test_a_sign_in_gives_a_stranger_no_further_attempts(api, signed_up, frozen):
    api.auth("sign-in", RIGHT)
    failures(40)
    api.auth("sign-in", RIGHT)

    assert statuses(failures(1, network=2)) == [429]


def test_failures_from_where_the_owner_signs_in_slow_nobody_else(api, signed_up, frozen):
    api.auth("sign-in", RIGHT)
    for _ in range(9):
        api.auth("sign-in", WRONG)

    assert statuses(failures(10)) == [401] * 10


def test_unknown_mails_are_slow_too(db, frozen):
    nobody = {"email": "nobody@example.org", "password": "Wrong-Horse-1"}

    assert statuses(failures(12, of=nobody)) == [401] * 10 + [429] * 2


def test_a_reset_of_the_password_ends_the_wait(signed_up, ada_row, frozen):
    failures(40)
    token = password_reset._new_token(ada_row)
    password_reset.reset_password(token, "Another-Horse-1")

    changed = RIGHT | {"password": "Another-Horse-1"}
    assert stranger().auth("sign-in", changed).status_code == 200


def test_refusals_say_when_to_try_again(api, signed_up, frozen):
    for _ in range(10):
        api.auth("sign-in", WRONG)
    limited = api.auth("sign-in", RIGHT)
    pass_time(60)
    locked = api.auth("sign-in", RIGHT)

    assert limited.json()["detail"] == f"too many requests; try again in {limited['Retry-After']} s"
    assert re.search(r"too many failed sign-ins; try again in [89] min", locked.json()["detail"])


def test_the_page_of_sign_in_says_when_to_try_again(client, signed_up, settings):
    settings.ROOT_URLCONF = "platform_site.urls"
    for _ in range(10):
        client.post("/sign-in", WRONG, REMOTE_ADDR="192.0.2.1")

    page = client.post("/sign-in", RIGHT, REMOTE_ADDR="192.0.2.1")

    assert page.status_code == 429
    assert f"Too many requests; try again in {page['Retry-After']} s" in page.content.decode()


def test_unknown_mails_lock_too(api):
    nobody = {"email": "nobody@example.org", "password": "Wrong-Horse-1"}
    for _ in range(10):
        api.auth("sign-in", nobody)
    pass_time(60)

    assert problem(api.auth("sign-in", nobody)) == (429, "account_locked")


def test_a_success_clears_the_failures(api, signed_up):
    for _ in range(9):
        api.auth("sign-in", WRONG)
    api.auth("sign-in", RIGHT)
    pass_time(60)

    assert statuses(api.auth("sign-in", WRONG) for _ in range(9)) == [401] * 9


def test_any_spelling_of_a_mail_is_one_mail(api, signed_up):
    for n in range(10):
        api.auth("sign-in", WRONG | {"email": " ADA@example.org" if n % 2 else "ada@Example.org"})
    pass_time(60)

    assert problem(api.auth("sign-in", RIGHT)) == (429, "account_locked")


def test_neither_mails_nor_addresses_are_kept(api):
    """Invariant 19."""
    api.auth("sign-in", WRONG)

    kept = str(LimitHit.objects.values())
    assert "ada@" not in kept.lower()
    assert "203.0.113" not in kept


@pytest.mark.store
@pytest.mark.django_db(transaction=True)
def test_many_at_once_from_anywhere_are_no_more_than_admitted_without_a_wait(frozen):
    rule = rate_limits.GrowingDelay(free=5, window=timedelta(hours=1), longest=timedelta(minutes=5))

    waits = at_once([lambda: rate_limits.delay_attempt("b", "k", rule)[1]] * 16)

    assert waits.count(0) <= 5


@pytest.mark.store
@pytest.mark.django_db(transaction=True)
def test_many_at_once_never_get_more_than_the_limit():
    def attempt() -> int:
        return count_attempt("b", "k", limit=5, window=timedelta(minutes=1))

    waits = at_once([attempt] * 16)

    assert waits.count(0) <= 5
