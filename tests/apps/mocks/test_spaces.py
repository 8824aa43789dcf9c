"""Spaces of a process: loaded off the event loop, refreshed, shared, bounded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from kernel.background import PeriodicThread
from mocks import spaces as module
from mocks.model.spaces import SpaceName
from tests.support.mock_planes import ChangingSource, Planes, content_of, files, planes
from tests.support.processes import until

REST = "/mocks/rest/orders/orders"
CHANGED = {"listOrders": "examples: {all: {response: {body: [3]}}}"}


@pytest.fixture
async def mocks() -> AsyncIterator[Planes]:
    async with planes() as made:
        yield made


def change(source: ChangingSource, space: str = "orders") -> None:
    source.contents[space] = content_of(files(**CHANGED), generation="2")


async def test_the_store_is_not_asked_while_a_space_is_fresh(mocks: Planes) -> None:
    for _ in range(20):
        await mocks.ask("GET", f"{REST}/orders")

    assert mocks.source.asked == 1
    assert mocks.source.loaded == ["orders"]


@pytest.mark.timed
async def test_a_changed_suite_is_served_within_two_seconds(mocks: Planes) -> None:
    mocks.spaces.start()
    assert (await mocks.ask("GET", f"{REST}/orders")).json() == [1, 2]
    change(mocks.source)
    began = time.monotonic()
    while (await mocks.ask("GET", f"{REST}/orders")).json() != [3]:
        assert time.monotonic() - began < module.FRESH_S + 5  # on a busy machine
        await asyncio.sleep(0.02)


async def test_an_unused_space_is_checked_before_its_next_answer(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await mocks.ask("GET", f"{REST}/orders")).json() == [1, 2]
    change(mocks.source)
    monkeypatch.setattr(module, "FRESH_S", -1.0)

    assert (await mocks.ask("GET", f"{REST}/orders")).json() == [3]


async def test_a_run_that_ended_is_not_served_any_more(mocks: Planes) -> None:
    path = "/mocks/rest/orders@run-1/orders/orders"
    assert (await mocks.ask("GET", path)).status_code == 200
    del mocks.source.contents["orders@run-1"]
    mocks.spaces.refresh()
    answer = await mocks.ask("GET", path)

    assert (answer.status_code, answer.json()["code"]) == (404, "space_not_active")


async def test_readiness_takes_in_what_is_new_at_once(mocks: Planes) -> None:
    await mocks.ask("POST", f"{REST}/orders", json={})
    assert (await mocks.ask("GET", f"{REST}/orders")).json() == [1, 2]
    change(mocks.source)
    mocks.resets["orders"] = {"orders": 1}

    assert (await mocks.ask("GET", "/mocks/ready/orders/orders")).status_code == 200
    assert (await mocks.ask("GET", f"{REST}/orders")).json() == [3]
    assert await mocks.state.read("orders", "orders") is None


async def test_a_reset_is_applied_once(mocks: Planes) -> None:
    mocks.resets["orders"] = {"": 3}
    for _ in range(2):
        await mocks.ask("GET", "/mocks/ready/orders/orders")
        await mocks.ask("POST", f"{REST}/orders", json={})
    record = await mocks.state.read("orders", "orders")

    assert record is not None
    assert record.fields == {"count": "2"}


async def test_a_reset_of_another_surface_empties_nothing_here(mocks: Planes) -> None:
    await mocks.ask("POST", f"{REST}/orders", json={})
    mocks.resets["orders"] = {"pay": 1}
    await mocks.ask("GET", "/mocks/ready/orders/orders")

    assert await mocks.state.read("orders", "orders") is not None


async def test_a_slow_load_holds_up_no_other_space_and_is_made_once(mocks: Planes) -> None:
    go_on = threading.Event()
    mocks.source.contents["orders@run-1"] = content_of(files(**CHANGED), generation="other")
    assert (await mocks.ask("GET", f"{REST}/orders")).status_code == 200
    mocks.source.before_load = lambda: go_on.wait(30)
    waiting = [
        asyncio.create_task(mocks.ask("GET", "/mocks/rest/orders@run-1/orders/orders"))
        for _ in range(5)
    ]
    await asyncio.to_thread(until, lambda: "orders@run-1" in mocks.source.loaded, within_s=30)
    others = [await mocks.ask("GET", f"{REST}/orders") for _ in range(5)]
    assert not any(task.done() for task in waiting)
    go_on.set()

    assert {each.status_code for each in others} == {200}
    assert {each.status_code for each in await asyncio.gather(*waiting)} == {200}
    assert mocks.source.loaded.count("orders@run-1") == 1


async def test_what_does_not_exist_is_not_asked_for_each_time(mocks: Planes) -> None:
    for _ in range(10):
        assert (await mocks.ask("GET", "/mocks/rest/none/orders/x")).status_code == 404
    for number in range(module._MAX_ABSENT + 10):
        mocks.spaces._keep(f"none-{number}", None, 1, time.monotonic())

    assert mocks.source.asked == 1
    assert len(mocks.spaces._absent) <= module._MAX_ABSENT


async def test_a_store_that_is_away_leaves_known_spaces_as_they_were(mocks: Planes) -> None:
    assert (await mocks.ask("GET", f"{REST}/orders")).json() == [1, 2]
    mocks.source.error = ConnectionError("away")
    mocks.spaces.refresh()
    known = await mocks.ask("GET", f"{REST}/orders")
    unknown = await mocks.ask("GET", "/mocks/rest/orders@run-1/orders/orders")

    assert known.status_code == 200
    assert (unknown.status_code, unknown.json()["code"]) == (503, "datastore_unavailable")


async def test_a_space_in_use_is_served_as_it_was_while_the_store_says_nothing(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is frozen, or slow: the look at it hangs, and no call waits for that."""
    go_on = threading.Event()
    mocks.spaces.start()
    assert (await mocks.ask("GET", f"{REST}/orders")).json() == [1, 2]
    change(mocks.source)
    mocks.source.before_load = lambda: go_on.wait(60)
    monkeypatch.setattr(module, "FRESH_S", -1.0)

    answers = [(await mocks.ask("GET", f"{REST}/orders")).json() for _ in range(20)]
    go_on.set()

    assert answers == [[1, 2]] * 20
    mocks.spaces.stop()


async def test_a_store_that_is_away_is_not_asked_for_each_call_of_a_known_space(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for a space that is not in use either: `start` was not called."""
    assert (await mocks.ask("GET", f"{REST}/orders")).json() == [1, 2]
    mocks.source.error = ConnectionError("away")
    mocks.spaces.refresh()
    monkeypatch.setattr(module, "FRESH_S", -1.0)
    asked = mocks.source.asked

    answers = [(await mocks.ask("GET", f"{REST}/orders")).json() for _ in range(20)]

    assert (answers, mocks.source.asked) == ([[1, 2]] * 20, asked)


async def test_unknown_spaces_are_refused_together_while_the_store_is_away(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look of each thread waits for the store; those behind them do not wait in turn."""
    monkeypatch.setattr(module, "REFUSED_S", 60.0)
    mocks.source.error = ConnectionError("away")
    paths = [f"/mocks/rest/unknown-{number}/orders/orders" for number in range(40)]

    answers = await asyncio.gather(*(mocks.ask("GET", path) for path in paths))

    assert {(each.status_code, each.json()["code"]) for each in answers} == {
        (503, "datastore_unavailable")
    }
    assert mocks.source.asked <= module.THREADS


@pytest.mark.slow
async def test_a_store_that_is_back_is_asked_again(mocks: Planes) -> None:
    mocks.spaces.start()
    assert (await mocks.ask("GET", f"{REST}/orders")).json() == [1, 2]
    mocks.source.error = ConnectionError("away")
    await asyncio.to_thread(until, lambda: mocks.source.asked >= 3, within_s=30)
    change(mocks.source)
    mocks.source.error = None

    async def is_changed() -> bool:
        return bool((await mocks.ask("GET", f"{REST}/orders")).json() == [3])

    for _ in range(600):
        if await is_changed():
            break
        await asyncio.sleep(0.05)
    assert await is_changed()
    mocks.spaces.stop()


async def test_an_older_look_never_undoes_a_newer_one(mocks: Planes) -> None:
    await mocks.ask("GET", f"{REST}/orders")
    known = mocks.spaces.get("orders", time.monotonic())
    assert known is not None
    change(mocks.source)
    await mocks.spaces.load_now("orders")
    mocks.spaces._keep("orders", known, known.ticket, time.monotonic())

    found = mocks.spaces.get("orders", time.monotonic())
    assert found is not None
    assert found.generation == "2"


async def test_the_number_of_spaces_is_bounded(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SPACES", 3)
    content = mocks.source.contents["orders"]
    for number in range(6):
        mocks.source.contents[f"orders@run-{number}"] = content
        await mocks.ask("GET", f"/mocks/rest/orders@run-{number}/orders/orders")

    assert sorted(mocks.spaces._live) == ["orders@run-3", "orders@run-4", "orders@run-5"]


async def test_spaces_of_one_content_are_loaded_once(mocks: Planes) -> None:
    for number in range(4):
        mocks.source.contents[f"orders@run-{number}"] = mocks.source.contents["orders"]
        path = f"/mocks/rest/orders@run-{number}/orders/orders"
        assert (await mocks.ask("GET", path)).status_code == 200

    assert len(mocks.source.loaded) == 1


async def test_too_many_loads_at_once_are_refused(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 0)
    answer = await mocks.ask("GET", f"{REST}/orders")

    assert (answer.status_code, answer.json()["code"]) == (503, "queue_full")


async def test_who_asks_for_readiness_waits_in_a_bounded_queue(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    let_go = threading.Event()
    mocks.source.before_load = lambda: let_go.wait(30)
    asked = [asyncio.create_task(mocks.ask("GET", "/mocks/ready/orders/orders")) for _ in range(6)]
    refused = await asyncio.gather(*asked[2:])
    let_go.set()
    answered = await asyncio.gather(*asked[:2])

    assert [answer.json()["code"] for answer in refused] == ["queue_full"] * 4
    assert [answer.status_code for answer in answered] == [200, 200]
    assert (await mocks.ask("GET", "/mocks/ready/orders/orders")).status_code == 200


async def test_the_contents_that_are_kept_are_bounded_in_bytes(
    mocks: Planes, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(map(len, files().values()))
    monkeypatch.setattr(module, "MAX_BYTES", 3 * size)
    for number in range(6):
        name = f"orders@run-{number}"
        mocks.source.contents[name] = content_of(files(), generation=f"v{number}")
        await mocks.ask("GET", f"/mocks/rest/{name}/orders/orders")

    assert [generation for _, generation in mocks.spaces._contents] == ["v3", "v4", "v5"]


def test_the_refresh_is_a_watched_loop() -> None:
    made = Planes()
    made.spaces.start()
    assert isinstance(made.spaces._thread, PeriodicThread)
    made.spaces.stop()


def test_names_of_spaces_are_read_and_written() -> None:
    for text in ("shop", "shop@run-x", "shop@run-x+pay~db"):
        name = SpaceName.parse(text)
        assert name is not None
        assert str(name) == text
    for text in ("", "a/b", "-x", "shop@", "shop@run+", "a" * 200):
        assert SpaceName.parse(text) is None
