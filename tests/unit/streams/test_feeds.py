"""What a process keeps in memory of the topics that it follows."""

from __future__ import annotations

import asyncio

from apps.streams.domain.chunks import Chunk
from apps.streams.domain.sse_frames import MOST_BYTES, RecordPage, Wrapping, page_of
from apps.streams.services.feeds import TopicFeed
from apps.streams.services.nudges import Switchboard


def polled_feed() -> TopicFeed:
    feed = TopicFeed("execution-logs:run-1", "line", lambda _topic: {})
    feed.advance(0, "", None)
    return feed


def page_after(number: int, *records: bytes) -> RecordPage:
    last = number + len(records)
    chunk = Chunk("execution-logs:run-1", number + 1, last, "db", records)
    return page_of([chunk], Wrapping("line", {}), after=number, upto=last)


def test_a_feed_keeps_little_more_than_its_newest_page_where_pages_are_large() -> None:
    """Invariant 38: memory that grows with the number of log lines."""
    feed = polled_feed()
    large = b'"%s"' % (b"x" * (MOST_BYTES // 2))
    for number in range(10):
        feed.advance(number + 1, "", page_after(number, large))

    kept = [number for number in range(10) if feed.page_beyond(number)]
    assert kept == [9]


async def test_what_was_replayed_is_forgotten_at_the_next_poll() -> None:
    """Invariant 38: also while nothing is appended to the topic."""
    feed = polled_feed()
    feed.replays[0, frozenset()] = asyncio.get_running_loop().create_future()

    feed.advance(0, "", None)

    assert not feed.replays


def test_nothing_is_kept_of_a_name_that_nobody_listens_to() -> None:
    """Invariant 38: memory that grows with the number of stream clients gone."""
    switchboard = Switchboard()
    first = switchboard.listen("execution-logs:run-1", lambda: None)
    second = switchboard.listen("execution-logs:run-1", lambda: None)

    first()
    assert switchboard._listeners
    second()
    assert not switchboard._listeners
