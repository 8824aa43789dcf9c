"""The Redis of counters: there, away, silent, back."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

from apps.operations.api import SharedRedisClient
from apps.operations.services.redis_client import ANSWER_S
from kernel.redis_breaker import PAUSE_S, RedisUnavailable
from tests.support import servers

ONE = "return 1"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def ask(redis: SharedRedisClient) -> bool:
    try:
        return bool(redis.run(ONE, keys=[], arguments=[]) == 1)
    except RedisUnavailable:
        return False


def seconds_for(redis: SharedRedisClient, times: int) -> float:
    began = time.monotonic()
    assert not any(ask(redis) for _ in range(times))
    return time.monotonic() - began


@pytest.mark.timed
def test_a_server_that_never_answers_costs_one_short_wait():
    """Invariants 34 and 37."""
    with servers.silent() as addr:
        redis = SharedRedisClient(f"redis://{addr}/0", clock=Clock())

        assert ANSWER_S <= seconds_for(redis, 1) < 4 * ANSWER_S
        assert seconds_for(redis, 1000) < ANSWER_S
        redis.close()


def test_of_many_at_once_only_one_asks_again_after_the_pause():
    """Invariant 37."""
    with servers.silent() as addr:
        clock = Clock()
        redis = SharedRedisClient(f"redis://{addr}/0", clock=clock)
        ask(redis)
        clock.now += PAUSE_S
        waits: list[float] = []
        threads = [
            threading.Thread(target=lambda: waits.append(seconds_for(redis, 1))) for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        redis.close()

    assert sorted(wait >= ANSWER_S for wait in waits) == [False] * 15 + [True]


@pytest.mark.timed
def test_nobody_there_is_known_at_once_and_not_asked_again(caplog):
    """Invariant 34."""
    redis = SharedRedisClient("redis://:hunter2@127.0.0.1:1/0")

    assert seconds_for(redis, 1000) < 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "hunter2" not in caplog.text


@pytest.mark.redis
def test_a_redis_that_dies_and_comes_back_is_used_again(tmp_path, monkeypatch, caplog):
    clock = Clock()
    port = servers.free_port()
    monkeypatch.setattr(servers, "free_port", lambda: port)
    redis = SharedRedisClient(f"redis://127.0.0.1:{port}/0", clock=clock)
    with servers.own_redis(tmp_path):
        assert ask(redis)
    assert not ask(redis)
    with ExitStack() as stack:
        stack.enter_context(servers.own_redis(tmp_path))
        stack.callback(redis.close)
        assert not ask(redis)  # not asked
        clock.now += PAUSE_S
        assert ask(redis)
        assert ask(redis)

    assert "partita.system" in {record.name for record in caplog.records}
