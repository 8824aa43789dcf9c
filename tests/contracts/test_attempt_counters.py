"""What both counters of attempts promise: the store and Redis give the same answers."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import pytest
from django.db.models import F
from redis import Redis

from apps.accounts.models import LimitHit
from apps.accounts.services.rate_limits import AttemptCounter, RedisAttempts, StoreAttempts
from apps.operations.api import SharedRedisClient, redis_key
from tests.support import parts
from tests.support.threads import at_once

MINUTE = timedelta(minutes=1)


@dataclass
class Driver:
    """One counter, a key that nobody else counts, and a way to let time pass."""

    counter: AttemptCounter
    pass_time: Callable[[float], None]
    kept: Callable[[], int]
    key: str

    def count(self, *, limit: int, key: str = "") -> int:
        return self.counter.count(key or self.key, limit=limit, window=MINUTE)


def _store(key: str) -> Driver:
    def pass_time(seconds: float) -> None:
        LimitHit.objects.update(expires_at=F("expires_at") - timedelta(seconds=seconds))

    return Driver(StoreAttempts(), pass_time, LimitHit.objects.filter(key_hash=key).count, key)


def _redis(key: str) -> Driver:
    url = f"redis://{parts.need('TEST_REDIS_ADDR', 'a Redis')}/0"
    client, name = Redis.from_url(url), redis_key("attempts", key)

    def pass_time(seconds: float) -> None:
        for member in client.zrange(name, 0, -1):
            client.zincrby(name, -seconds * 1_000_000, cast("bytes", member))

    return Driver(RedisAttempts(SharedRedisClient(url)), pass_time, lambda: client.zcard(name), key)


@pytest.fixture(
    params=[
        pytest.param(_store, id="store"),
        pytest.param(_redis, id="redis", marks=pytest.mark.redis),
    ]
)
def driver(request, transactional_db):
    return request.param(secrets.token_hex(32))


def test_the_limit_is_free_and_the_next_one_is_not(driver):
    answers = [driver.count(limit=3) for _ in range(5)]

    assert answers[:3] == [0, 0, 0]
    assert all(59 <= wait_s <= 60 for wait_s in answers[3:])


def test_the_answer_says_in_whole_seconds_when_one_would_be_free(driver):
    for age_s in (20, 30, 0):
        driver.count(limit=3)
        driver.pass_time(age_s)  # the three are then 50, 30 and 0 seconds old

    assert 9 <= driver.count(limit=3) <= 10
    assert 29 <= driver.count(limit=2) <= 30
    assert 59 <= driver.count(limit=1) <= 60


def test_a_wait_is_never_zero_seconds(driver):
    driver.count(limit=1)
    driver.pass_time(59.5)

    assert driver.count(limit=1) == 1


def test_the_window_slides(driver):
    for age_s in (40, 0):
        for _ in range(5):
            assert driver.count(limit=10) == 0
        driver.pass_time(age_s)
    assert driver.count(limit=10) > 0

    driver.pass_time(21)  # the first five are over a minute old, the last five are not

    assert [driver.count(limit=10) > 0 for _ in range(6)] == [False] * 5 + [True]


def test_a_refused_attempt_does_not_count(driver):
    """Invariant 38."""
    for _ in range(20):
        driver.count(limit=2)

    assert driver.kept() == 2


def test_keys_are_apart(driver):
    assert driver.count(limit=1) == 0
    assert driver.count(limit=1, key=secrets.token_hex(32)) == 0


def test_of_many_at_once_never_more_than_the_limit_get_through(driver):
    answers = at_once([lambda: driver.count(limit=5)] * 16)

    assert Counter(answers)[0] <= 5


@pytest.mark.redis
def test_what_redis_keeps_ends_with_the_window():
    """Invariant 38."""
    driver = _redis(secrets.token_hex(32))
    driver.count(limit=2)

    client = Redis.from_url(f"redis://{parts.address('TEST_REDIS_ADDR')}/0")
    assert 59_000 < client.pttl(redis_key("attempts", driver.key)) <= 60_000
