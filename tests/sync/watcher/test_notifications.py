"""Sinks that tell of changes: units are looked at early, and the polls find what is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import OperationalError

from sync_stack.core.bundle.datasources import Datasource, UpdateStrategy
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.sink import Changes, Destination, Notifying, SinkError
from sync_stack.sinks.configmap import ConfigMapOptions
from sync_stack.sinks.configmap import client as configmap_client
from sync_stack.sinks.file import FileOptions
from sync_stack.sinks.open_sinks import open_sink
from sync_stack.sinks.redis import RedisOptions, RedisStructure
from sync_stack.watcher import notifications, poller
from sync_stack.watcher.notifications import ChangeNotifications
from sync_stack.watcher.poller import Poller
from tests.support.kubernetes_api import LABEL, Api, serving
from tests.support.parts import need
from tests.support.processes import Process, until
from tests.support.servers import free_port, redis_command
from tests.support.sync_world import World
from tests.sync.watcher.watching import Loop, Watching

PATIENCE_S = 30
PLACE = "/api/v1/namespaces/apps/configmaps"


class PrivateRedis:
    """A server of its own: what it tells of is a setting of the whole server."""

    def __init__(self, folder: Path) -> None:
        need("TEST_REDIS_ADDR", "Redis")
        port = free_port()
        command = redis_command(port)
        assert command is not None
        self.address = f"127.0.0.1:{port}"
        self.process = Process("redis", command, {}, folder / "redis.log")
        self.process.start()
        self.client = redis.Redis(port=port, decode_responses=True)
        until(self._answers, within_s=PATIENCE_S, what=self.process.tail)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def tell_of(self, events: str) -> None:
        self.client.config_set("notify-keyspace-events", events)

    def listeners(self) -> int:
        patterns = int(self.client.pubsub_numpat())
        return len(self.client.pubsub_channels()) + patterns

    def sink(self, strategy: UpdateStrategy = UpdateStrategy.KEY_VALUE, **options: Any) -> Any:
        made = RedisOptions(hosts=(self.address,), **options)
        source = Datasource(name="sink", kind="redis", options=made, update_strategy=strategy)
        return open_sink(source, lambda ref: ref.value)

    def close(self) -> None:
        self.client.close()
        self.process.end()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrivateRedis]:
    made = PrivateRedis(tmp_path)
    yield made
    made.close()


def place(name: str, separator: str = "") -> Destination:
    return Destination(kind="redis", name=name, address=f"redis://{name}", separator=separator)


def heard(changes: Changes, places: Collection[Destination], wanted: set[Destination]) -> bool:
    """Whether exactly these are told of, in whatever portions."""
    found: set[str] = set()
    end = time.monotonic() + PATIENCE_S
    while found != {each.id for each in wanted} and time.monotonic() < end:
        found |= changes.next(places, 0.2)
    return found == {each.id for each in wanted} and not changes.next(places, 0.2)


@pytest.mark.redis
def test_redis_tells_of_the_keys_of_a_destination_and_of_no_others(server):
    server.tell_of("KA")
    changes = server.sink(data_structure=RedisStructure.STRING).changes()
    whole, many, other = place("shop-production"), place("a*[b]", ":"), place("elsewhere")
    try:
        changes.next({whole, many}, 0)
        server.client.hset("shop-production", "a", "1")
        server.client.hset("elsewhere", "a", "1")
        server.client.set("axb:key", "1")
        assert heard(changes, {whole, many}, {whole})
        server.client.set("a*[b]:key", "1")
        server.client.delete("shop-production")
        assert heard(changes, {whole, many}, {whole, many})
        changes.next({other}, 0)
        server.client.hset("shop-production", "a", "1")
        server.client.hset("elsewhere", "a", "2")
        assert heard(changes, {other}, {other})
    finally:
        changes.close()


@pytest.mark.redis
@pytest.mark.parametrize(
    ("events", "structure", "tells"),
    [
        ("", RedisStructure.HASH, False),
        ("Kgh", RedisStructure.HASH, True),
        ("Kgh", RedisStructure.STRING, False),
        ("Kg$", RedisStructure.STRING, True),
        ("EA", RedisStructure.HASH, False),
    ],
)
def test_whether_redis_tells_is_read_from_its_setting(server, events, structure, tells):
    server.tell_of(events)
    changes = server.sink(data_structure=structure).changes()
    assert (changes is not None) is tells
    if changes is not None:
        changes.close()


class Running:
    """The poller at work with polls an hour apart; only the first one comes in time."""

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        self.poller = Poller(
            watching.checker,
            watching.healer,
            watching.threads,
            bundle=lambda: watching.world.bundle,
            interval_s=3600,
            notice_pause_s=0.1,
        )
        watching.loop.do(self._start())
        until(lambda: watching.checker.facts, within_s=PATIENCE_S, what="the first poll")

    async def _start(self) -> None:
        self._task = asyncio.create_task(self.poller.run())

    def stop(self) -> None:
        async def end() -> None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

        self.watching.loop.do(end())


@pytest.fixture
def first_poll_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "JITTER_S", 0.0)


@pytest.mark.redis
@pytest.mark.usefixtures("first_poll_at_once")
def test_drift_in_redis_is_seen_long_before_the_next_poll_and_the_poll_finds_what_is_lost(
    server, tmp_path
):
    """Sync invariants 38, 40."""
    server.tell_of("KA")
    world = World(tmp_path, sink=server.sink())
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    with Loop() as loop:
        watching = Watching(world, loop)
        running = Running(watching)
        until(lambda: server.listeners() == 1, within_s=PATIENCE_S)
        assert watching.count("drift") == 0
        server.client.hset("production-shop", "a", "by hand")
        until(lambda: watching.states == ["open"], within_s=PATIENCE_S)
        until(lambda: watching.count("drift") == 1, within_s=PATIENCE_S)  # counted behind its row
        server.client.hset("production-shop", "a", "1")
        until(lambda: watching.states == ["resolved"], within_s=PATIENCE_S)
        running.stop()
        until(lambda: server.listeners() == 0, within_s=PATIENCE_S)

        server.client.hdel("production-shop", "b")
        assert watching.count("drift") == 1
        watching.poll()
        assert watching.states == ["resolved", "open"]


class Told(Changes):
    """Says what a test puts into it: ids, or an error."""

    def __init__(self) -> None:
        self.said: deque[frozenset[str] | Exception] = deque()
        self.opened = self.closed = 0

    def next(self, destinations: Collection[Destination], timeout_s: float) -> frozenset[str]:
        if not self.said:
            threading.Event().wait(0.01)
            return frozenset()
        said = self.said.popleft()
        if isinstance(said, Exception):
            raise said
        return said & {each.id for each in destinations}

    def close(self) -> None:
        self.closed += 1

    def changes(self) -> Changes:
        self.opened += 1
        return self


BUNDLE = Bundle(
    platforms=(),
    datasources=(Datasource(name="sink", kind="file", options=FileOptions(root="/")),),
    rules=(),
)
HERE = place("here")


async def one_unit(_datasource: str) -> Mapping[str, Destination]:
    return {"unit": HERE}


async def settled(ready: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not ready():  # noqa: ASYNC110 - of what other tasks leave behind
            await asyncio.sleep(0.01)


@pytest.fixture
def told() -> Told:
    made = Told()
    assert isinstance(made, Notifying)
    return made


async def test_many_words_of_one_unit_are_one_look_in_each_pause(told):
    looks: list[float] = []
    now = asyncio.get_running_loop().time

    async def look(_datasource: str, _unit: str) -> None:
        looks.append(now())

    notices = ChangeNotifications(lambda: BUNDLE, lambda _source: told, look, one_unit, pause_s=0.5)
    listening = asyncio.create_task(notices.listen("sink"))
    told.said += [frozenset({HERE.id, "unknown"})] * 30
    await settled(lambda: len(looks) == 2)
    await settled(lambda: not told.said)
    await asyncio.sleep(0.6)
    assert len(looks) == 2
    assert looks[1] - looks[0] >= 0.49
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await notices.stop()
    await settled(lambda: told.closed == 1)


async def test_a_unit_synced_since_the_last_poll_is_listened_for(told, monkeypatch):
    """Else its first changes wait for the next poll, which may be minutes away."""
    monkeypatch.setattr(notifications, "TARGETS_S", 0.05)
    looks: list[str] = []
    units: Mapping[str, Destination] = {"new": HERE}
    faults = [None, OperationalError("the store is away")]
    reads: list[object] = []

    async def look(_datasource: str, unit: str) -> None:
        looks.append(unit)

    async def units_of(_datasource: str) -> Mapping[str, Destination]:
        reads.append(fault := faults.pop(0) if faults else None)
        if fault is not None:
            raise fault
        return units if len(reads) > 2 else {}

    notices = ChangeNotifications(lambda: BUNDLE, lambda _source: told, look, units_of, pause_s=0)
    listening = asyncio.create_task(notices.listen("sink"))
    await settled(lambda: len(reads) > 3)
    told.said.append(frozenset({HERE.id}))
    await settled(lambda: looks == ["new"])
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def test_a_source_that_fails_is_said_once_and_opened_again(told, monkeypatch, caplog):
    monkeypatch.setattr(notifications, "FIRST_PAUSE_S", 0.01)
    looks: list[str] = []

    async def look(_datasource: str, unit: str) -> None:
        looks.append(unit)

    notices = ChangeNotifications(lambda: BUNDLE, lambda _source: told, look, one_unit, pause_s=0)
    away = SinkError("sink_unavailable", "Redis: ConnectionError")
    told.said += [away, away, frozenset({HERE.id})]
    listening = asyncio.create_task(notices.listen("sink"))
    await settled(lambda: looks == ["unit"])
    assert told.opened == 3
    said = [
        record.message
        for record in caplog.records
        if "sends no change notifications" in record.message
    ]
    assert said == ["sink sends no change notifications: Redis: ConnectionError"]
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await settled(lambda: told.closed == 3)


def test_early_looks_that_find_nothing_shorten_no_pause(watching):
    """Sync invariant 42."""
    watching.poll()
    before = watching.checker.heal_states.of(watching.unit.id)
    for _ in range(20):
        watching.loop.do(watching.poller.poll_unit("sink", watching.unit.id, notified=True))
    assert watching.checker.heal_states.of(watching.unit.id) == before


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(configmap_client, "WATCH_S", 0.5)
    with serving() as made:
        yield made


def labeled(api: Api, name: str) -> None:
    made = {"metadata": {"name": name, "labels": {LABEL: "partita"}}, "data": {}}
    with api.lock:
        api.store(f"{PLACE}/{name}", made)


@pytest.fixture
def changes(api: Api) -> Iterator[Changes]:
    options = ConfigMapOptions(namespace="apps", configmap_name="shop", api_server=api.server)
    source = Datasource(name="sink", kind="configmap", options=options)
    found: Any = open_sink(source, lambda ref: ref.value)
    made = found.changes()
    yield made
    made.close()
    api.ended.set()
    until(lambda: not any(each.name == "watch-apps" for each in threading.enumerate()), within_s=30)


ONE, TWO = (
    Destination(kind="configmap", name=f"apps/{name}", address=name) for name in ("one", "two")
)


def started(api: Api, changes: Changes) -> None:
    """The watch is on: from now on nothing is missed."""
    labeled(api, "one")
    labeled(api, "two")
    changes.next({ONE, TWO}, 0)
    until(lambda: any("watch=true" in path for _, path, _ in api.requests), within_s=PATIENCE_S)


def test_kubernetes_tells_of_configmaps_of_ours_also_over_several_watches(api, changes):
    started(api, changes)
    api.by_hand(f"{PLACE}/one", {"a": "by hand"})
    assert heard(changes, {ONE, TWO}, {ONE})
    until(lambda: sum("watch=true" in path for _, path, _ in api.requests) > 2, within_s=PATIENCE_S)
    api.by_hand(f"{PLACE}/unlabeled", {"a": "not ours"})
    api.delete(f"{PLACE}/two")
    assert heard(changes, {ONE, TWO}, {TWO})


def test_when_kubernetes_has_forgotten_the_version_all_of_the_namespace_is_looked_at(api, changes):
    started(api, changes)
    with api.lock:
        api.oldest = 10**6
    everything = {ONE.id, TWO.id}
    until(lambda: changes.next({ONE, TWO}, 0.2) == everything, within_s=PATIENCE_S)
    with api.lock:
        api.oldest = 0
    api.by_hand(f"{PLACE}/one", {"a": "by hand"})
    until(lambda: ONE.id in changes.next({ONE, TWO}, 0.2), within_s=PATIENCE_S)


def test_a_watch_that_is_not_allowed_is_an_error_that_names_the_verb(api, changes):
    api.faults += [("GET", 403)]
    with pytest.raises(SinkError, match="may not get configmaps in namespace 'apps'"):
        until(lambda: changes.next({ONE}, 0.2), within_s=PATIENCE_S)
