from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kernel import background
from kernel.background import BackgroundThread, Delayed, PeriodicThread, keep_running
from tests.support.processes import until


class Unforeseen(Exception):
    """What no body expects."""


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(background, "STEADY_S", 0.3)


@pytest.fixture
def ended() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def failing_first(times: int, then: Callable[[], object]) -> Callable[[], object]:
    left = [Unforeseen(f"number {number}") for number in range(times)]

    def body() -> object:
        if left:
            raise left.pop()
        return then()

    return body


def test_a_thread_runs_again_after_an_error_is_counted_and_told(
    ended: threading.Event, caplog: pytest.LogCaptureFixture
):
    seen: list[tuple[str, int]] = []
    background.observe(observer := lambda name, count: seen.append((name, count)))
    before = background.failures().get("test-again", 0)
    body = failing_first(2, ended.wait)

    with caplog.at_level(logging.ERROR, "partita.background"):
        thread = BackgroundThread("test-again", body, ended=ended)
        thread.start()
        until(lambda: background.failures()["test-again"] == before + 2, within_s=30)
        until(lambda: "test-again" not in background.failing(), within_s=30)
    background._observers.remove(observer)

    assert thread.is_alive()
    assert [each for each in seen if each[0] == "test-again"] == [
        *[("test-again", 0)],
        *[("test-again", 1)] * 2,
    ]
    assert "Unforeseen: number 0" in caplog.text
    assert "Traceback" in caplog.text


def test_a_thread_that_waits_for_its_next_try_is_failing(ended: threading.Event):
    background_pause = threading.Event()

    def body() -> None:
        background_pause.set()
        raise Unforeseen

    BackgroundThread("test-pausing", body, ended=ended).start()

    until(lambda: "test-pausing" in background.failing(), within_s=30)
    ended.set()
    until(lambda: "test-pausing" not in background.running(), within_s=30)
    assert "test-pausing" not in background.failing()


def test_pauses_double_up_to_a_limit_and_begin_anew_after_a_steady_run(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(random, "uniform", lambda _low, high: high)
    monkeypatch.setattr(background, "LONGEST_PAUSE_S", 0.3)
    watch = background.Watch("test-pauses")

    pauses = []
    for _ in range(5):
        watch.begin()
        pauses.append(watch.record_failure(Unforeseen()))
    watch.begin()
    time.sleep(background.STEADY_S + 0.05)

    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.3, 0.3])
    assert not watch.is_failing
    assert watch.record_failure(Unforeseen()) == pytest.approx(0.05)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_an_exit_ended_stays_dead_and_is_told():
    def body() -> None:
        raise SystemExit

    thread = BackgroundThread("test-exit", body)
    thread.start()
    thread.join(5)

    assert not thread.is_alive()
    assert "test-exit" in background.failing()
    background.forget(thread.watch)


def test_a_periodic_act_that_failed_does_not_wait_for_its_period(ended: threading.Event):
    done = threading.Event()
    waits: list[float] = []

    def wait() -> bool:
        waits.append(time.monotonic())
        return ended.wait(0.01 if len(waits) == 1 else 3600)

    act = failing_first(2, done.set)
    PeriodicThread("test-periodic", act, wait, ended=ended).start()

    assert done.wait(5)
    until(lambda: len(waits) == 2, within_s=30)
    assert "test-periodic" not in background.failing()


def test_a_periodic_loop_is_failing_until_its_act_passes(ended: threading.Event):
    healthy = threading.Event()

    def act() -> None:
        if not healthy.is_set():
            raise Unforeseen

    PeriodicThread("test-until", act, lambda: ended.wait(0.01), ended=ended).start()

    until(lambda: "test-until" in background.failing(), within_s=30)
    healthy.set()
    until(lambda: "test-until" not in background.failing(), within_s=30)


def test_what_is_delayed_is_done_once_and_again_only_when_it_failed():
    done: list[float] = []
    later = Delayed("test-later", 0.05, failing_first(1, lambda: done.append(time.monotonic())))
    begun = time.monotonic()
    later.start()
    later.join(5)

    assert len(done) == 1
    assert done[0] - begun >= 0.05
    assert "test-later" not in background.running()


def test_what_is_delayed_can_be_called_off():
    done = threading.Event()
    later = Delayed("test-off", 3600, done.set)
    later.start()

    later.end()
    later.join(5)

    assert not later.is_alive()
    assert not done.is_set()


async def test_a_task_runs_again_and_a_cancellation_passes():
    running = asyncio.Event()
    left = [Unforeseen()]

    async def body() -> None:
        if left:
            raise left.pop()
        running.set()
        await asyncio.sleep(3600)

    task = asyncio.create_task(keep_running("test-task", body))
    await asyncio.wait_for(running.wait(), 5)
    assert background.failures()["test-task"] >= 1
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert task.cancelled()
    assert "test-task" not in background.running()


def test_a_fork_has_none_of_its_parents_loops(ended: threading.Event):
    BackgroundThread("test-parent", ended.wait, ended=ended).start()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"none" if "test-parent" not in background.running() else b"some")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)

    with os.fdopen(reading, "rb") as answer:
        assert answer.read() == b"none"


def test_an_error_that_a_loop_catches_again_and_again_names_it(
    ended: threading.Event, monkeypatch: pytest.MonkeyPatch
):
    """As settings do that stay as they were while the store is away."""
    monkeypatch.setattr(background, "PERSISTENT_S", 0.2)
    is_away = threading.Event()
    is_away.set()

    def act() -> None:
        if is_away.is_set():
            background.report_error()

    PeriodicThread("test-swallowing", act, lambda: ended.wait(0.02), ended=ended).start()

    until(lambda: "test-swallowing" in background.failing(), within_s=30)
    is_away.clear()
    until(lambda: "test-swallowing" not in background.failing(), within_s=30)
    assert background.failures()["test-swallowing"] == 0


def test_a_single_error_that_a_loop_catches_is_none(
    ended: threading.Event, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(background, "PERSISTENT_S", 0.1)
    left = [1]
    cycles: list[bool] = []

    def act() -> None:
        if left:
            left.pop()
            background.report_error()
        cycles.append("test-blip" in background.failing())

    PeriodicThread("test-blip", act, lambda: ended.wait(0.02), ended=ended).start()

    until(lambda: len(cycles) >= 20, within_s=30)
    assert not any(cycles)


async def test_an_error_below_a_thread_of_a_task_is_the_tasks(monkeypatch: pytest.MonkeyPatch):
    """The context goes along with `asyncio.to_thread`."""
    monkeypatch.setattr(background, "PERSISTENT_S", 0.0)

    async def body() -> None:
        while True:
            with background.one_cycle():
                await asyncio.to_thread(background.report_error, optional=True)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(keep_running("test-optional", body))
    while "test-optional" not in background.degraded_loops():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    failing = background.failing()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert "test-optional" not in failing
    assert "test-optional" not in background.degraded_loops()


def test_reported_errors_of_a_loop_without_cycles_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(background, "PERSISTENT_S", 0.0)
    watch = background.Watch("test-forgetting")

    watch.report_error()
    was_failing = watch.is_failing
    monkeypatch.setattr(background, "FORGOTTEN_S", 0.0)

    assert was_failing
    assert not watch.is_failing


def test_an_error_outside_of_loops_is_nobodys():
    background.report_error()

    with background.one_cycle():
        background.report_error()
