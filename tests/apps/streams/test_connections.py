"""Followers hold no connection to the store (issue: a stream that keeps one exhausts the pool)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import connection

from apps.streams import api as streams
from tests.apps.streams.conftest import Seen, append, follow, read_until, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres, pytest.mark.store]


def sessions() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


async def test_a_hundred_followers_read_over_a_few_connections(hub, open_logs):
    if connection.vendor != "postgresql":
        pytest.skip("counts the sessions of a PostgreSQL server")
    await append(open_logs, "one")
    before = await stored(sessions)
    followers = [follow(open_logs) for _ in range(100)]
    everyone = [Seen() for _ in followers]

    async def all_until(count: int) -> None:
        await asyncio.gather(
            *(
                read_until(frames, seen, lambda s: len(s.ids) == count)
                for frames, seen in zip(followers, everyone, strict=True)
            )
        )

    await all_until(1)
    await append(open_logs, "two")
    await all_until(2)
    during = await stored(sessions)
    for frames in followers:
        await frames.aclose()

    assert during - before <= 3
    assert all(seen.ids == [1, 2] for seen in everyone)


def test_a_use_case_notices_that_the_server_ended_its_connection(open_logs):
    if connection.vendor != "postgresql":
        pytest.skip("ends the sessions of a PostgreSQL server")
    streams.append([streams.Batch(open_logs, "db", [b"{}"])])
    end_other_sessions()

    assert streams.append([streams.Batch(open_logs, "db", [b"{}"])]) == {open_logs: 2}


def test_a_connection_that_ends_inside_a_use_case_is_replaced_and_the_case_repeated(open_logs):
    if connection.vendor != "postgresql":
        pytest.skip("ends the sessions of a PostgreSQL server")
    tries = []

    @streams.unit_of_work
    def interrupted() -> dict[str, int]:
        tries.append(1)
        last = streams.append([streams.Batch(open_logs, "db", [b"{}"])])
        if len(tries) == 1:
            end_other_sessions()
            streams.last_ids([open_logs])
        return last

    assert interrupted() == {open_logs: 1}
    assert len(tries) == 2


def test_the_first_dead_connection_of_the_pool_tells_of_all(open_logs):
    """Invariant 34: a restart of the server must not cost a pause for each idle connection."""
    pool = getattr(connection, "pool", None)
    if pool is None:
        pytest.skip("only PostgreSQL has a pool")
    fill(pool, connections=8)
    lost = pool.get_stats().get("connections_lost", 0)
    end_other_sessions()

    assert streams.append([streams.Batch(open_logs, "db", [b"{}"])]) == {open_logs: 1}
    assert pool.get_stats()["connections_lost"] == lost + 1


def fill(pool: Any, *, connections: int) -> None:
    taken = [pool.getconn() for _ in range(connections)]
    for each in taken:
        pool.putconn(each)


def end_other_sessions() -> None:
    import psycopg

    options = {
        key: value
        for key, value in connection.get_connection_params().items()
        if key in ("host", "port", "user", "password", "dbname")
    }
    with psycopg.connect(**options, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
