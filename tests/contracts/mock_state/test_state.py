"""What every store of mock state does, memory and Redis alike (reference: control-plane 18.5)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mocks.engine.rate_limits import take_call
from mocks.model.ports import StateStore
from mocks.redis_link import RedisLink
from mocks.state.memory import MemoryState, RecordTooLarge, StateLimits
from mocks.state.redis import RedisState, SharedState
from surfaces.behaviors import CallLimit

REDIS = os.environ.get("TEST_REDIS_ADDR", "")
ROOT = Path(__file__).resolve().parents[3]
LIMITS = StateLimits(records=20, bytes=3_000, idle_s=60)
KINDS = [
    "memory",
    pytest.param("redis", marks=pytest.mark.redis),
    pytest.param("shared", marks=pytest.mark.redis),
]


def link(prefix: str) -> RedisLink:
    if not REDIS:
        pytest.skip("needs Redis: TEST_REDIS_ADDR is not set (run `make test`)")
    return RedisLink(f"redis://{REDIS}/0", prefix=prefix)


def prefix_of(request: pytest.FixtureRequest) -> str:
    return f"test-mocks-{os.getpid()}-{abs(hash(request.node.nodeid))}"


@pytest.fixture(params=KINDS)
async def state(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    if request.param == "memory":
        yield MemoryState(LIMITS)
        return
    opened = link(prefix_of(request))
    shared = RedisState(opened, LIMITS)
    yield shared if request.param == "redis" else SharedState(shared, MemoryState(LIMITS))
    await opened.close()


async def keys_of(state: StateStore, space: str = "s") -> list[str]:
    return [record.key for record in await state.records(space)]


async def test_a_record_is_made_changed_and_removed(state: StateStore) -> None:
    assert await state.read("s", "k") is None
    assert await state.change("s", "k", "a", version=0, fields={"n": "1", "ü\n": '"'})
    first = await state.read("s", "k")
    assert first is not None
    assert (first.key, first.surface_id, first.version) == ("k", "a", 1)
    assert first.fields == {"n": "1", "ü\n": '"'}
    assert await state.change("s", "k", "b", version=1, fields={})
    second = await state.read("s", "k")
    assert second is not None
    assert (second.surface_id, second.version, dict(second.fields)) == ("a", 2, {})
    assert second.updated_at >= first.updated_at
    assert await state.change("s", "k", "a", version=2, fields=None)
    assert await state.read("s", "k") is None
    assert await state.change("s", "k", "a", version=0, fields=None)


async def test_another_version_changes_nothing(state: StateStore) -> None:
    await state.change("s", "k", "a", version=0, fields={"n": "1"})
    for version in (0, 2):
        assert not await state.change("s", "k", "a", version=version, fields={"n": "2"})
        assert not await state.change("s", "k", "a", version=version, fields=None)
    assert not await state.change("s", "none", "a", version=1, fields={"n": "2"})
    found = await state.read("s", "k")
    assert found is not None
    assert (found.fields, found.version) == ({"n": "1"}, 1)


async def test_a_key_that_was_removed_has_no_earlier_version_again(state: StateStore) -> None:
    """Otherwise a change that read the first record would overwrite the second one."""
    await state.change("s", "k", "a", version=0, fields={"n": "1"})
    await state.change("s", "k", "a", version=1, fields=None)
    await state.change("s", "k", "a", version=0, fields={"n": "2"})

    assert not await state.change("s", "k", "a", version=1, fields={"n": "stale"})


async def test_counters_count_from_zero(state: StateStore) -> None:
    drawn = [await state.draw("s", "a", "op") for _ in range(3)]
    other = [await state.draw("s", "b", "op"), await state.draw("t", "a", "op")]

    assert (drawn, other) == ([0, 1, 2], [0, 0])
    counters = {
        (each.surface_id, each.operation_id): each.value for each in await state.counters("s")
    }
    assert counters == {("a", "op"): 3, ("b", "op"): 1}


async def test_calls_at_once_are_never_more_than_their_rate_limit(state: StateStore) -> None:
    limit, place = CallLimit(calls=7, per_ms=60_000), ("s", "a")
    waits = await asyncio.gather(*(take_call(limit, "k", state, place) for _ in range(40)))
    assert sum(wait_ms == 0 for wait_ms in waits) == 7
    assert all(wait_ms <= 60_000 for wait_ms in waits)

    await state.reset("s", surface_id="a")
    assert await take_call(limit, "k", state, place) == 0


async def test_spaces_stay_apart(state: StateStore) -> None:
    """Invariant 29."""
    for space in ("s", "s@run-1", "s@run-1+x"):
        assert await state.change(space, "k", "a", version=0, fields={"of": space})
    await state.reset("s@run-1")

    assert await keys_of(state, "s") == ["k"]
    assert await keys_of(state, "s@run-1") == []
    assert await keys_of(state, "s@run-1+x") == ["k"]


async def filled(state: StateStore) -> None:
    for key, surface in (("k1", "a"), ("k2", "b"), ("k3", "a")):
        await state.change("s", key, surface, version=0, fields={"n": "1"})
    for surface in ("a", "b"):
        await state.draw("s", surface, "op")


@pytest.mark.parametrize(
    ("chosen", "removed", "left"),
    [
        ({}, 5, []),
        ({"surface_id": "a"}, 3, ["k2"]),
        ({"key": "k1"}, 1, ["k2", "k3"]),
        ({"key": "k1", "surface_id": "b"}, 0, ["k1", "k2", "k3"]),
        ({"surface_id": "none"}, 0, ["k1", "k2", "k3"]),
    ],
)
async def test_a_reset_removes_what_was_chosen(
    state: StateStore, chosen: dict[str, str], removed: int, left: list[str]
) -> None:
    await filled(state)

    assert await state.reset("s", **chosen) == removed
    assert await keys_of(state) == left
    assert [record.key for record in await state.records("s", key="k2")] == (
        ["k2"] if "k2" in left else []
    )


async def test_resets_of_the_store_are_applied_once(state: Any) -> None:
    await filled(state)
    for _ in range(2):
        await asyncio.to_thread(state.apply_resets, "s", {"a": 1})
        assert await keys_of(state) == ["k2"]
        await state.change("s", "k2", "b", version=1, fields={"n": "2"})
    await state.change("s", "k9", "a", version=0, fields={})
    await asyncio.to_thread(state.apply_resets, "s", {"a": 1})
    assert await keys_of(state) == ["k2", "k9"]
    await asyncio.to_thread(state.apply_resets, "s", {"": 1})
    assert await keys_of(state) == []
    assert await state.counters("s") == []


async def test_the_least_recently_changed_goes_first(state: StateStore) -> None:
    for number in range(20):
        await state.change("s", f"k{number:02}", "a", version=0, fields={"n": "1"})
    await state.change("s", "k00", "a", version=1, fields={"n": "2"})
    await state.change("s", "k20", "a", version=0, fields={"n": "1"})

    assert await keys_of(state) == ["k00", *(f"k{number:02}" for number in range(2, 21))]


async def test_all_records_have_a_size_together(state: StateStore) -> None:
    for number in range(5):
        await state.change("s", f"k{number}", "a", version=0, fields={"n": "x" * 1_000})

    assert await keys_of(state) in (["k3", "k4"], ["k2", "k3", "k4"])


async def test_a_record_beyond_its_size_is_refused_and_changes_nothing(state: StateStore) -> None:
    await state.change("s", "k", "a", version=0, fields={"n": "1"})
    for text in ("x" * 70_000, "ü" * 40_000):
        with pytest.raises(RecordTooLarge):
            await state.change("s", "k", "a", version=1, fields={"n": text})
    found = await state.read("s", "k")
    assert found is not None
    assert found.version == 1


class Client:
    """Does random changes to few keys, each repeated until it is in force, and notes them."""

    def __init__(self, state: StateStore, seed: int) -> None:
        self.state, self.random = state, random.Random(seed)
        self.added: dict[str, int] = {}
        self.drawn: list[int] = []

    async def work(self, changes: int) -> None:
        for _ in range(changes):
            if self.random.random() < 0.3:
                self.drawn.append(await self.state.draw("s", "a", "op"))
                continue
            key, amount = f"k{self.random.randrange(3)}", self.random.randrange(1, 9)
            while not await self._add(key, amount):
                continue
            self.added[key] = self.added.get(key, 0) + amount

    async def _add(self, key: str, amount: int) -> bool:
        found = await self.state.read("s", key)
        fields = dict(found.fields) if found else {}
        await asyncio.sleep(0)  # let the others come between
        fields["n"] = str(int(fields.get("n", "0")) + amount)
        version = found.version if found else 0
        return await self.state.change("s", key, "a", version=version, fields=fields)


async def assert_equals_model(
    state: StateStore, added: list[Mapping[str, int]], drawn: list[list[int]]
) -> None:
    """The state is the sum of what all clients did, each counter value went out once."""
    wanted: dict[str, int] = {}
    for of_client in added:
        for key, amount in of_client.items():
            wanted[key] = wanted.get(key, 0) + amount
    records = await state.records("s")
    assert {record.key: int(record.fields["n"]) for record in records} == wanted
    values = [value for of_client in drawn for value in of_client]
    assert sorted(values) == list(range(len(values)))


async def test_eight_clients_lose_no_update(state: StateStore) -> None:
    """Invariant 29."""
    clients = [Client(state, seed) for seed in range(8)]
    await asyncio.gather(*(client.work(25) for client in clients))

    await assert_equals_model(
        state, [client.added for client in clients], [client.drawn for client in clients]
    )


def test_eight_threads_lose_no_update_in_memory() -> None:
    """Invariant 29."""
    state = MemoryState()
    clients = [Client(state, seed) for seed in range(8)]
    threads = [threading.Thread(target=asyncio.run, args=[each.work(100)]) for each in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    asyncio.run(
        assert_equals_model(
            state, [each.added for each in clients], [each.drawn for each in clients]
        )
    )


@pytest.mark.redis
@pytest.mark.slow
def test_two_processes_of_four_clients_lose_no_update(request: pytest.FixtureRequest) -> None:
    """Invariant 29."""
    prefix = prefix_of(request)
    opened = link(prefix)
    command = [sys.executable, "-m", "tests.contracts.mock_state.clients", REDIS, prefix]
    processes = [
        subprocess.Popen([*command, str(seed)], cwd=ROOT, stdout=subprocess.PIPE)
        for seed in (0, 100)
    ]
    said = [json.loads(process.communicate(timeout=180)[0]) for process in processes]

    assert [process.returncode for process in processes] == [0, 0]
    added = [each for process in said for each in process["added"]]
    drawn = [each for process in said for each in process["drawn"]]

    async def compared() -> None:
        await assert_equals_model(RedisState(opened), added, drawn)
        await opened.close()

    asyncio.run(compared())


@pytest.mark.redis
async def test_a_space_in_redis_ends_by_itself(request: pytest.FixtureRequest) -> None:
    prefix = prefix_of(request)
    opened = link(prefix)
    state = RedisState(opened, StateLimits(idle_s=30))
    await state.change("s", "k", "a", version=0, fields={"n": "1"})
    await state.draw("s", "a", "op")
    for key in ("state", "order"):
        life = await opened.run("return redis.call('PTTL', KEYS[1])", [opened.key(key, "s")], ())
        assert 0 < life <= 30_000
    await opened.close()


async def test_a_space_in_memory_ends_when_nobody_asked_for_long() -> None:
    now = [0.0]
    state = MemoryState(StateLimits(idle_s=30), monotonic=lambda: now[0])
    await state.change("s", "k", "a", version=0, fields={"n": "1"})
    now[0] = 29
    assert await state.read("s", "k") is not None
    now[0] = 60
    assert await state.read("s", "k") is None
    assert await state.draw("s", "a", "op") == 0
    assert await state.records("s") == []


async def test_without_redis_the_memory_serves_and_asks_again_after_a_pause() -> None:
    """Invariants 34 and 37."""
    now = [100.0]
    opened = RedisLink("redis://127.0.0.1:1/0", clock=lambda: now[0])
    state = SharedState(RedisState(opened), MemoryState())
    assert await state.change("s", "k", "a", version=0, fields={"n": "1"})
    found = await state.read("s", "k")
    assert found is not None
    assert await state.draw("s", "a", "op") == 0
    assert opened.is_away
    assert not await asyncio.to_thread(state.apply_resets, "s", {"": 1})
    assert await state.read("s", "k") is None
    await opened.close()


async def test_the_memory_of_an_earlier_absence_does_not_come_back() -> None:
    now = [100.0]
    opened = RedisLink("redis://127.0.0.1:1/0", clock=lambda: now[0])
    state = SharedState(RedisState(opened), MemoryState())
    await state.change("s", "k", "a", version=0, fields={"n": "1"})
    assert await state.read("s", "k") is not None
    opened._breaker.record_answer()
    opened._breaker.record_failure(ConnectionError())

    assert await state.read("s", "k") is None
    await opened.close()


async def test_all_spaces_in_memory_have_a_size_together() -> None:
    """Invariant 37."""
    state = MemoryState(StateLimits(total_bytes=10_000))
    for number in range(50):
        await state.change(f"s{number}", "k", "a", version=0, fields={"n": "x" * 1_000})
    kept = [number for number in range(50) if await state.read(f"s{number}", "k")]
    assert kept == list(range(41, 50))
    assert state._bytes == sum(space.bytes for space in state._spaces.values()) <= 10_000

    await state.change("s49", "k", "a", version=1, fields={"n": "y"})
    await state.change("s48", "k", "a", version=1, fields=None)
    await state.reset("s47")
    state.apply_resets("s46", {"a": 1})
    state.forget("s45")
    assert state._bytes == sum(space.bytes for space in state._spaces.values())


@pytest.mark.redis
@pytest.mark.parametrize("space", ["orders", "orders@run-1"])
async def test_a_space_in_use_is_not_emptied_by_an_old_reset(
    request: pytest.FixtureRequest, space: str
) -> None:
    """A process that starts applies the numbers of all resets, however long ago they were."""
    opened = link(prefix_of(request))
    state = RedisState(opened, StateLimits(idle_s=0.4))
    await asyncio.to_thread(state.apply_resets, space, {"": 1})
    await state.change(space, "k", "a", version=0, fields={"x": "1"})
    for _ in range(6):
        await asyncio.sleep(0.1)  # in use for longer than an idle space is kept
        await state.read(space, "k")
    await asyncio.to_thread(state.apply_resets, space, {"": 1})

    assert await keys_of(state, space) == ["k"]
    await opened.close()
