"""The bounded queue whose thread writes in batches."""

from __future__ import annotations

import threading

from kernel import background
from kernel.background_writer import BackgroundWriter, QueueLimits


def test_what_is_queued_while_a_batch_is_written_goes_into_the_next():
    started, go = threading.Event(), threading.Event()
    written: list[list[int]] = []

    def write(batch: list[int]) -> None:
        written.append(batch)
        started.set()
        assert go.wait(5)

    writer = BackgroundWriter("numbers", write, QueueLimits(items=10, batch_items=3))
    assert writer.put(0)
    assert started.wait(5)
    assert all(writer.put(number) for number in range(1, 6))
    go.set()

    assert writer.close(5) == 0
    assert written == [[0], [1, 2, 3], [4, 5]]


def test_a_full_queue_refuses_by_items_and_by_bytes():
    go = threading.Event()
    writer = BackgroundWriter(
        "texts", lambda _batch: go.wait(5), QueueLimits(items=3, bytes=10), size_of=len
    )
    writer.put("a")
    while not writer.is_empty():  # the thread holds the first one
        pass
    assert writer.put("b" * 8)
    assert not writer.put("c" * 3)
    assert writer.put("d")
    assert writer.put("e")
    assert not writer.put("f")
    go.set()
    writer.close(5)


def test_the_end_of_its_time_drops_what_is_left_and_tells_how_much():
    go = threading.Event()
    writer = BackgroundWriter[int]("slow", lambda _batch: go.wait(5), QueueLimits(items=10))
    for number in range(3):
        writer.put(number)
    while len(writer._items) == 3:
        pass
    assert writer.close(0.05) == 2
    go.set()


def test_the_first_item_after_the_end_starts_another_thread():
    written: list[list[int]] = []
    writer = BackgroundWriter("numbers", written.append, QueueLimits(items=10))
    for number in (1, 2):
        writer.put(number)
        assert writer.close(5) == 0
    assert written == [[1], [2]]


def test_a_batch_that_fails_is_lost_and_the_next_is_written(monkeypatch):
    monkeypatch.setattr(background, "FIRST_PAUSE_S", 0.01)
    written: list[int] = []
    reset, done = [], threading.Event()

    def write(batch: list[int]) -> None:
        if batch == [1]:
            raise ValueError("the store is away")
        written.extend(batch)
        done.set()

    writer = BackgroundWriter(
        "numbers", write, QueueLimits(items=10), after_failure=lambda: reset.append("reset")
    )
    writer.put(1)
    writer.put(2)
    assert done.wait(5)
    writer.close(5)

    assert (written, reset) == ([2], ["reset"])
