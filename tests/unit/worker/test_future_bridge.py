"""Futures of the store's thread, awaited on the supervisor's event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from apps.workers.control_plane.report_batcher import FutureBridge
from worker.supervisor.waits import first_of


async def test_futures_that_resolve_together_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch):
    loop, wakes = asyncio.get_running_loop(), list[Any]()
    bridge = FutureBridge()
    futures: list[Future[int]] = [Future() for _ in range(30)]
    waiting = [asyncio.create_task(bridge.result_of(each)) for each in futures]
    await asyncio.sleep(0)
    wake = loop.call_soon_threadsafe

    def counted(*call: Any) -> None:
        wakes.append(call)
        wake(*call)

    def resolve() -> None:
        for number, each in enumerate(futures):
            each.set_result(number)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    with ThreadPoolExecutor(1) as threads:  # leaving it blocks the loop until all are resolved
        threads.submit(resolve)

    assert await asyncio.gather(*waiting) == list(range(30))
    assert len(wakes) == 1


async def test_an_error_is_raised_and_one_that_resolves_later_is_not_missed():
    bridge = FutureBridge()
    failing: Future[int] = Future()
    failing.set_exception(OSError("the disk is full"))
    with pytest.raises(OSError, match="full"):
        await bridge.result_of(failing)

    with ThreadPoolExecutor(1) as threads:
        assert await bridge.result_of(threads.submit(lambda: 7)) == 7


async def test_a_call_that_is_canceled_cancels_its_future():
    future: Future[int] = Future()
    call = asyncio.create_task(FutureBridge().result_of(future))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert future.cancelled()


async def test_a_future_that_loses_the_race_stays_and_a_coroutine_is_canceled():
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    canceled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            canceled.set()

    assert await first_of(stop=stop, over=asyncio.sleep(0)) == "over"
    assert not stop.done()
    stop.set_result(None)
    assert await first_of(stop=stop, over=work()) == "stop"
    assert canceled.is_set()
