"""The streams of a user in all processes, counted in a real Redis, and in its absence."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from django.test import AsyncRequestFactory
from redis import Redis

from apps.operations.api import SharedRedisClient
from apps.operations.services import redis_client as quick_redis
from apps.streams import api as streams
from apps.streams.services import responses, stream_leases
from apps.streams.services.responses import TooManyStreams
from apps.streams.services.stream_leases import StreamLeases
from tests.apps.streams.conftest import follow
from tests.support import parts, servers

HOLD_ONE_SECOND_LEASE = """
import django, sys, time
django.setup()
from apps.streams.services.stream_leases import StreamLeases
from apps.operations.api import shared_redis
leases = StreamLeases(shared_redis(), lease_s=1, renew_s=0.3)
print(leases.acquire("ada", limit=1)[1].result(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def redis_url(settings, monkeypatch) -> str:
    """A Redis that answers, however busy the machine is: slow answers have tests of their own."""
    monkeypatch.setattr(quick_redis, "ANSWER_S", 30.0)
    monkeypatch.setattr(responses, "ANSWER_S", 30.0)
    quick_redis._of.cache_clear()  # of this Redis an earlier test may know that it was away
    settings.REDIS_PREFIX = f"test-{secrets.token_hex(6)}"
    url = f"redis://{parts.need('TEST_REDIS_ADDR', 'a Redis')}/0"
    settings.REDIS_URL = url
    return url


def process(url: str, *, renew_s: float = 15) -> StreamLeases:
    """What one process holds."""
    return StreamLeases(SharedRedisClient(url), renew_s=renew_s)


def free(taken: tuple[str, Future[bool]]) -> bool:
    return taken[1].result(timeout=180)


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return met


async def answer(topic: str) -> responses.EventStream:
    request = AsyncRequestFactory().get("/api/v1/executions/run-1/logs")
    return await streams.sse_response(request, follow(topic), user_key="ada")


@pytest.mark.redis
def test_processes_share_the_places_of_a_user(redis_url):
    one, two = process(redis_url), process(redis_url)
    first, second = one.acquire("ada", limit=2), two.acquire("ada", limit=2)

    assert free(first)
    assert free(second)
    assert not free(one.acquire("ada", limit=2))
    assert not free(two.acquire("ada", limit=2))
    assert free(two.acquire("bob", limit=2))
    one.release(first[0])
    assert one.flush(timeout_s=60)
    assert free(two.acquire("ada", limit=2))


@pytest.mark.redis
def test_nothing_is_kept_of_streams_that_ended_and_no_user_is_named(redis_url, settings):
    """Invariants 19 and 38."""
    leases = process(redis_url)
    taken = [leases.acquire("user-ada", limit=9) for _ in range(5)]
    assert all(map(free, taken))
    client = Redis.from_url(redis_url)
    (name,) = client.keys(f"{settings.REDIS_PREFIX}:*")
    assert "user-ada" not in str(name)
    assert 0 < client.pttl(name) <= stream_leases.LEASE_S * 1000
    for stream, _ in taken:
        leases.release(stream)
        leases.release(stream)

    assert leases.flush(timeout_s=60)
    assert client.keys(f"{settings.REDIS_PREFIX}:*") == []
    assert leases._held == {}


@pytest.mark.redis
def test_a_place_lasts_as_long_as_its_process_and_not_much_longer(redis_url, settings):
    """Invariant 38."""
    env = {
        **os.environ,
        "REDIS_ADDR": parts.address("TEST_REDIS_ADDR"),
        "REDIS_PREFIX": settings.REDIS_PREFIX,
    }
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_ONE_SECOND_LEASE],
        env=env, cwd=Path.cwd(), stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout
        assert child.stdout.readline() == "True\n"
        mine = process(redis_url)
        assert not within(2, lambda: free(mine.acquire("ada", limit=1)))  # renewed
        child.kill()

    assert within(2, lambda: free(mine.acquire("ada", limit=1)))


@pytest.mark.redis
def test_what_redis_forgot_is_counted_again_after_the_next_renewal(redis_url, settings):
    one, two = process(redis_url, renew_s=0.2), process(redis_url)
    assert free(one.acquire("ada", limit=1))
    client = Redis.from_url(redis_url)
    client.delete(*client.keys(f"{settings.REDIS_PREFIX}:*"))

    assert within(5, lambda: bool(client.keys(f"{settings.REDIS_PREFIX}:*")))
    assert not free(two.acquire("ada", limit=1))


@pytest.mark.redis
@pytest.mark.django_db(transaction=True)
async def test_a_stream_too_many_in_another_process_is_refused_here(
    hub, open_logs, redis_url, settings
):
    settings.STREAM_MAX_PER_USER = 2
    elsewhere = process(redis_url)
    held, taken = elsewhere.acquire("ada", limit=2)
    assert free((held, taken))
    mine = await answer(open_logs)

    with pytest.raises(TooManyStreams):
        await answer(open_logs)
    assert responses.open_streams.count() == 1
    elsewhere.release(held)
    assert elsewhere.flush(timeout_s=60)
    (await answer(open_logs)).close()
    mine.close()
    assert responses.open_streams.count() == 0


@pytest.mark.redis
@pytest.mark.django_db(transaction=True)
async def test_a_redis_that_dies_in_the_middle_leaves_the_count_of_each_process(
    hub, open_logs, tmp_path, settings
):
    """Invariants 34 and 37."""
    settings.STREAM_MAX_PER_USER = 2
    with servers.own_redis(tmp_path) as address:
        settings.REDIS_URL = f"redis://{address}/0"
        first = await answer(open_logs)

    second = await answer(open_logs)
    with pytest.raises(TooManyStreams):
        await answer(open_logs)
    first.close()
    second.close()


@pytest.mark.django_db(transaction=True)
async def test_a_redis_that_is_away_from_the_start_refuses_nobody(hub, open_logs, settings):
    """Invariants 34 and 37."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.STREAM_MAX_PER_USER = 2
    opened = [await answer(open_logs) for _ in range(2)]

    with pytest.raises(TooManyStreams):
        await answer(open_logs)
    for response in opened:
        response.close()


@pytest.mark.timed
@pytest.mark.django_db(transaction=True)
async def test_a_redis_that_hangs_blocks_neither_the_loop_nor_the_streams(hub, open_logs, settings):
    """Invariants 34 and 37."""
    longest_s = 0.0

    async def tick() -> None:
        nonlocal longest_s
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest_s = max(longest_s, time.monotonic() - began)

    with servers.silent() as addr:
        settings.REDIS_URL = f"redis://{addr}/0"
        ticking = asyncio.ensure_future(tick())
        began = time.monotonic()
        opened = await asyncio.gather(*(answer(open_logs) for _ in range(20)))
        took_s = time.monotonic() - began
        ticking.cancel()
        for response in opened:
            response.close()

    assert took_s < 5
    assert longest_s < 1
    assert responses.open_streams.count() == 0


@pytest.mark.django_db(transaction=True)
async def test_who_leaves_while_the_place_is_asked_for_gives_it_back(hub, open_logs, settings):
    """Invariant 38."""
    with servers.silent() as addr:
        settings.REDIS_URL = f"redis://{addr}/0"
        opening = asyncio.ensure_future(answer(open_logs))
        await asyncio.sleep(0.05)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        leases = stream_leases.process_leases()
        assert leases
        assert await asyncio.to_thread(leases.flush, timeout_s=5)

    assert opening.cancelled()
    assert leases._held == {}
    assert responses.open_streams.count() == 0
