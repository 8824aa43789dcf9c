"""Rate limits with a Redis, and with one that is away (reference: control-plane 1.2)."""

from __future__ import annotations

import time

import pytest
from redis import Redis

from apps.accounts.api import limit_rate
from apps.accounts.domain.errors import TooManyAttempts
from apps.accounts.models import LimitHit
from tests.apps.accounts.conftest import PASSWORD
from tests.support import servers
from tests.support.api_clients import problem

WRONG = {"email": "ada@example.org", "password": "Wrong-Horse-1"}


@pytest.fixture
def redis_addr(tmp_path, settings):
    with servers.own_redis(tmp_path) as address:
        settings.REDIS_URL = f"redis://{address}/0"
        yield address


def passed(limit: int, *, tries: int, key: str = "k") -> int:
    """How many of `tries` get through."""
    through = 0
    for _ in range(tries):
        try:
            limit_rate("b", key, limit)
            through += 1
        except TooManyAttempts:
            continue
    return through


@pytest.mark.redis
def test_requests_count_in_redis_and_not_in_the_store(redis_addr):
    assert passed(3, tries=5) == 3

    assert LimitHit.objects.count() == 0


@pytest.mark.redis
def test_redis_holds_neither_mails_nor_addresses_and_forgets_within_a_minute(redis_addr, api):
    """Invariants 19 and 38."""
    answers = [api.auth("sign-in", WRONG) for _ in range(11)]
    assert problem(answers[-1]) == (429, "rate_limited")
    assert 1 <= int(answers[-1]["Retry-After"]) <= 60

    client = Redis.from_url(f"redis://{redis_addr}/0")
    (name,) = client.keys("*")
    kept = f"{name!r} {client.zrange(name, 0, -1)}"
    assert "partita:attempts:" in kept
    assert "203.0.113" not in kept
    assert 0 < client.pttl(name) <= 60_000
    client.close()


@pytest.mark.redis
def test_failed_passwords_still_count_in_the_store(redis_addr, api):
    api.auth("sign-in", WRONG)

    assert LimitHit.objects.count() == 2, "of the address with this client, and of the account"


@pytest.mark.redis
def test_a_redis_that_dies_in_the_middle_hands_over_to_the_store(tmp_path, settings):
    """Invariants 34 and 37."""
    with servers.own_redis(tmp_path) as address:
        settings.REDIS_URL = f"redis://{address}/0"
        assert passed(3, tries=2) == 2

    assert passed(3, tries=5) == 3


def test_a_redis_that_is_away_from_the_start_costs_nothing(settings, api):
    """Invariants 34 and 37."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

    assert passed(3, tries=5) == 3
    ada = {"fullName": "A", "email": "ada@example.org", "password": PASSWORD}
    assert api.auth("sign-up", ada).status_code == 201


@pytest.mark.timed
def test_a_redis_that_hangs_delays_one_request_by_a_moment(settings):
    """Invariants 34 and 37."""
    with servers.silent() as addr:
        settings.REDIS_URL = f"redis://{addr}/0"
        began = time.monotonic()

        assert passed(3, tries=50) == 3
        assert time.monotonic() - began < 5  # 50 waits would be 12 s
