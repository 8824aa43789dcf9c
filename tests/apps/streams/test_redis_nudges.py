"""Nudges between processes over a real Redis, and its absence."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing, closing
from pathlib import Path

import pytest
from django.db import connection

from apps.streams.services import hub as hub_module
from apps.streams.services import nudges
from apps.streams.services.redis_nudges import RedisNudges
from tests.apps.streams.conftest import Seen, append, follow, read_until
from tests.support import servers

pytestmark = pytest.mark.redis

APPEND = """
import django, sys
django.setup()
from apps.streams import api as streams
streams.append([streams.Batch(sys.argv[1], "db", [b'{"text":"from afar"}'])])
"""


@pytest.fixture
def redis_addr(tmp_path: Path) -> Iterator[str]:
    with servers.own_redis(tmp_path) as address:
        yield address


class Process:
    """What one process hears."""

    def __init__(self, addr: str) -> None:
        self.heard: list[str] = []
        self.resubscribed = 0
        self._changed = threading.Condition()
        self.nudges = RedisNudges(
            f"redis://{addr}/0", "test:nudges", on_nudge=self._hear, on_reconnect=self._hear_all
        )

    def _hear(self, name: str) -> None:
        with self._changed:
            self.heard.append(name)
            self._changed.notify_all()

    def _hear_all(self) -> None:
        with self._changed:
            self.resubscribed += 1
            self._changed.notify_all()

    def wait(self, condition: Callable[[Process], bool]) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), timeout=15)

    def close(self) -> None:
        self.nudges.close()


def listening(addr: str) -> Process:
    process = Process(addr)
    process.nudges.subscribe()
    assert process.wait(lambda p: p.resubscribed == 1)
    return process


def test_other_processes_hear_each_name_once_and_the_teller_does_not(redis_addr: str):
    with closing(listening(redis_addr)) as one, closing(listening(redis_addr)) as two:
        for _ in range(50):
            one.nudges.publish("work")
        one.nudges.publish("execution-logs:run-1")

        assert two.wait(lambda p: "work" in p.heard and "execution-logs:run-1" in p.heard)
        assert one.heard == []
    assert len(two.heard) < 10  # gathered


def test_a_redis_that_comes_back_is_used_again_and_everybody_looks(tmp_path: Path):
    with ExitStack() as stack:
        addr = stack.enter_context(servers.own_redis(tmp_path))
        one = stack.enter_context(closing(listening(addr)))
        two = stack.enter_context(closing(listening(addr)))
        admin = ["redis-cli", "-p", addr.partition(":")[2]]
        subprocess.run([*admin, "client", "kill", "type", "pubsub"], check=True)
        subprocess.run([*admin, "client", "kill", "type", "normal"], check=True)

        assert two.wait(lambda p: p.resubscribed == 2)
        one.nudges.publish("work")
        assert two.wait(lambda p: "work" in p.heard)


@pytest.mark.timed
def test_without_a_redis_telling_is_quick_and_silent():
    """Invariant 34."""
    nobody = Process("127.0.0.1:1")
    nobody.nudges.subscribe()

    began = time.monotonic()
    for number in range(1000):
        nobody.nudges.publish(str(number))
    assert time.monotonic() - began < 1
    nobody.close()


def child_store() -> dict[str, str]:
    """The environment by which another process finds the store of this test."""
    if connection.vendor == "sqlite":
        return {"DB_DRIVER": "sqlite", "SQLITE_PATH": str(connection.settings_dict["NAME"])}
    dsn = connection.get_connection_params()
    text = f"host={dsn['host']} port={dsn['port']} user={dsn['user']} dbname={dsn['dbname']}"
    return {"DB_DRIVER": "postgres", "POSTGRES_DSN": text}


@pytest.fixture
def nudges_over_redis(redis_addr: str, settings) -> Iterator[dict[str, str]]:
    settings.REDIS_URL = f"redis://{redis_addr}/0"
    nudges._other_processes.cache_clear()
    yield {"REDIS_ADDR": redis_addr, "REDIS_PREFIX": settings.REDIS_PREFIX}
    if others := nudges._other_processes():
        others.close()
    nudges._other_processes.cache_clear()


@pytest.mark.django_db(transaction=True)
async def test_a_follower_here_hears_at_once_of_a_record_that_another_process_stored(
    nudges_over_redis, open_logs, monkeypatch
):
    """Invariant 10."""
    monkeypatch.setattr(hub_module, "POLL_INTERVAL_S", 60)  # only a nudge can be in time
    async with aclosing(follow(open_logs)) as frames:
        await append(open_logs, "from here")
        seen = await read_until(frames, Seen(), lambda s: bool(s.ids))
        env = {**os.environ, **child_store(), **nudges_over_redis}
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", APPEND, open_logs, env=env, cwd=Path.cwd()
        )
        assert await child.wait() == 0
        await read_until(frames, seen, lambda s: len(s.ids) == 2)
    await hub_module.stop_hub()

    assert seen.texts == ["from here", "from afar"]
