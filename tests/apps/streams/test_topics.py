"""Appending to and reading from topics, on the store."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from apps.streams import api as streams
from tests.support.threads import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]

LOGS = "execution-logs:run-000000000001"
EVENTS = "execution-events:run-000000000001"


def records(count: int, *, prefix: str = "line") -> list[bytes]:
    return [b'{"text":"%s %d"}' % (prefix.encode(), n) for n in range(1, count + 1)]


def stored(topic: str, **kwargs) -> list[bytes]:
    return [r for chunk in streams.iterate(topic, **kwargs) for r in chunk.records]


def numbers(topic: str) -> list[int]:
    return [n for chunk in streams.iterate(topic) for n in range(chunk.first, chunk.last + 1)]


def test_records_are_numbered_from_one_without_a_hole_over_batches_and_topics():
    streams.open_topics([LOGS, EVENTS])

    last = streams.append(
        [
            streams.Batch(LOGS, "db", records(3)),
            streams.Batch(EVENTS, "db", records(1)),
            streams.Batch(LOGS, "api", records(2)),
            streams.Batch(LOGS, "api", []),
        ]
    )

    assert last == {LOGS: 5, EVENTS: 1}
    assert [(c.first, c.last, c.source) for c in streams.iterate(LOGS)] == [
        (1, 3, "db"),
        (4, 5, "api"),
    ]
    assert streams.last_ids([LOGS, EVENTS, "unknown"]) == {LOGS: 5, EVENTS: 1}


def test_eight_writers_at_once_leave_dense_numbers_and_keep_the_order_of_each():
    """Invariant 10."""
    streams.open_topics([LOGS, EVENTS])

    def write(number: int) -> None:
        for turn in range(10):
            lines = [b'{"w":%d,"n":%d}' % (number, turn * 5 + n) for n in range(5)]
            streams.append(
                [streams.Batch(LOGS, str(number), lines), streams.Batch(EVENTS, "e", [b"{}"])]
            )

    at_once([partial(write, number) for number in range(8)])

    assert numbers(LOGS) == list(range(1, 401))
    assert numbers(EVENTS) == list(range(1, 81))
    for writer in range(8):
        own = stored(LOGS, source=str(writer))
        assert own == [b'{"w":%d,"n":%d}' % (writer, n) for n in range(50)]


def test_a_rollback_leaves_no_number_used():
    """Invariant 10."""
    streams.open_topics([LOGS])

    @streams.unit_of_work
    def fail() -> None:
        streams.append([streams.Batch(LOGS, "db", records(7))])
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()

    assert streams.append([streams.Batch(LOGS, "db", records(1))]) == {LOGS: 1}


def test_nothing_is_appended_to_a_topic_that_is_closed_deleted_or_never_opened():
    """Invariant 4."""
    streams.open_topics([LOGS, EVENTS])
    streams.append([streams.Batch(LOGS, "db", records(2))])
    assert streams.close_topic(LOGS, "Healthy") == 2
    streams.delete_topics([EVENTS])

    for topic in (LOGS, EVENTS, "never"):
        with pytest.raises(streams.TopicNotOpen):
            streams.append([streams.Batch(topic, "db", records(1))])
    with pytest.raises(streams.TopicNotOpen):
        streams.close_topic(LOGS, "Failed")


def test_a_trimmed_topic_keeps_its_numbers_and_goes_on():
    streams.open_topics([LOGS])
    for _ in range(3):
        streams.append([streams.Batch(LOGS, "a", records(10))])

    streams.trim_topic(LOGS, upto=15)  # in the middle of a chunk, which stays

    assert [(c.first, c.last) for c in streams.read(LOGS, after=0, limit=100)] == [
        (11, 20),
        (21, 30),
    ]
    assert streams.append([streams.Batch(LOGS, "a", records(1))]) == {LOGS: 31}


def test_reading_cuts_the_first_and_the_last_chunk_to_what_is_asked_for():
    streams.open_topics([LOGS])
    for source in ("a", "b", "a"):
        streams.append([streams.Batch(LOGS, source, records(10, prefix=source))])

    chunks = streams.read(LOGS, after=7, limit=15)
    assert [(c.first, c.last, len(c.records)) for c in chunks] == [
        (8, 10, 3),
        (11, 20, 10),
        (21, 22, 2),
    ]
    assert chunks[0].records == tuple(records(10, prefix="a")[7:])
    only_a = streams.read(LOGS, after=5, limit=100, source="a")
    assert [(c.first, c.last) for c in only_a] == [(6, 10), (21, 30)]
    assert [(c.first, c.last) for c in streams.tail(LOGS, limit=12)] == [(19, 20), (21, 30)]
    assert streams.read(LOGS, after=30, limit=5) == []


def test_many_chunks_are_read_over_several_pages():
    streams.open_topics([LOGS])
    streams.append([streams.Batch(LOGS, "db", [record]) for record in records(300)])

    assert stored(LOGS) == records(300)
    assert [c.first for c in streams.tail(LOGS, limit=290)] == list(range(11, 301))


def test_a_record_with_a_newline_is_refused():
    streams.open_topics([LOGS])

    with pytest.raises(ValueError, match="newline"):
        streams.append([streams.Batch(LOGS, "db", [b"{\n}"])])


def test_a_nudge_is_sent_after_commit_and_never_after_a_rollback():
    heard: list[int] = []
    streams.open_topics([LOGS])
    stop = streams.listen(LOGS, lambda: heard.append(streams.last_ids([LOGS])[LOGS]))

    @streams.unit_of_work
    def write(*, fail: bool) -> None:
        streams.append([streams.Batch(LOGS, "db", records(4))])
        assert heard == []
        if fail:
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        write(fail=True)
    assert heard == []
    write(fail=False)
    assert heard == [4]
    stop()
    streams.nudge(LOGS)
    assert heard == [4]


def test_a_nudge_outside_a_transaction_is_sent_at_once():
    heard = threading.Event()
    stop = streams.listen("work", heard.set)

    streams.nudge("work")

    assert heard.is_set()
    stop()


def test_a_listener_that_fails_fails_nothing_that_is_committed(caplog):
    """Such as one on an event loop that has ended."""

    def fails() -> None:
        raise RuntimeError("the loop is closed")

    @streams.unit_of_work
    def write() -> None:
        streams.append([streams.Batch(LOGS, "db", records(1))])
        streams.nudge("work")

    streams.open_topics([LOGS])
    stop = streams.listen("work", fails)
    write()
    stop()

    assert streams.last_ids([LOGS]) == {LOGS: 1}
    assert "the loop is closed" in caplog.text
